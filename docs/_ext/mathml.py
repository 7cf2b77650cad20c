"""Formulas as MathML, which browsers draw by themselves: no script and no network is needed."""

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import accents, tex2mathml
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

__all__ = ["mathml", "setup"]

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", NAMESPACE)
APPLICATION = "\N{FUNCTION APPLICATION}"

# amsmath sees from what follows which dots are wanted; docutils wants to be told.
DOTS = re.compile(r"\\dots\b")

# It also takes both digits of \\frac12 for the numerator.
DIGITS = re.compile(r"\\frac *(\d) *(\d)")

logger = logging.getLogger(__name__)


def mathml(formula: str, *, as_block: bool) -> str:
    """Return a formula in LaTeX as MathML."""
    formula = DIGITS.sub(r"\\frac{\1}{\2}", DOTS.sub(r"\\ldots", formula))
    text = tex2mathml(formula, as_block=as_block)
    tree = ElementTree.fromstring(text.replace("&ApplyFunction;", APPLICATION))
    for element in tree.iter(f"{{{NAMESPACE}}}munderover"):
        _lower_right(element)
    for element in tree.iter():
        _thin_space(element)
    return ElementTree.tostring(tree, encoding="unicode")


def _lower_right(element: ElementTree.Element) -> None:
    """Put the index of an accented letter beside it; docutils puts it below, as with a sum."""
    base, index, accent = element
    if accent.text in accents.values():
        accented = ElementTree.Element(f"{{{NAMESPACE}}}mover", accent="true")
        accented.extend([base, accent])
        element.tag = f"{{{NAMESPACE}}}msub"
        element[:] = [accented, index]


def _thin_space(parent: ElementTree.Element) -> None:
    """Set the argument of a function apart from its name, unless a bracket does."""
    for function, argument in pairwise(parent):
        if function.text == APPLICATION and argument.text not in ("(", "["):
            function.set("rspace", "0.17em")


def _drawn(node: nodes.Element, *, as_block: bool) -> str:
    try:
        return mathml(node.astext(), as_block=as_block)
    except MathError as error:
        # A warning fails the build, so no formula reaches the reader as source.
        logger.warning(
            "cannot draw the formula %r: %s", node.astext(), error, location=node
        )
        return ""


def _visit_inline(translator: "HTML5Translator", node: nodes.math) -> None:
    translator.body.append(_drawn(node, as_block=False))
    raise nodes.SkipNode


def _visit_block(translator: "HTML5Translator", node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{_drawn(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: "Sphinx") -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
