"""Formulas as MathML, which browsers draw by themselves: no script, no font and no network is needed."""

import re
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

# amsmath sees from what follows which dots are wanted; docutils knows both kinds, but by their names only.
DOTS = re.compile(r"\\dots\b")

logger = logging.getLogger(__name__)


def mathml(formula: str, *, as_block: bool) -> str:
    """Return a formula in LaTeX as MathML."""
    text = tex2mathml(DOTS.sub(r"\\ldots", formula), as_block=as_block)
    tree = ElementTree.fromstring(text.replace("&ApplyFunction;", "\N{FUNCTION APPLICATION}"))
    for element in tree.iter(f"{{{NAMESPACE}}}munderover"):
        _lower_right(element)
    return ElementTree.tostring(tree, encoding="unicode")


def _lower_right(element: ElementTree.Element) -> None:
    """Put the index of an accented letter beside it; docutils puts it below, as with a sum."""
    base, index, accent = element
    if accent.text in accents.values():
        accented = ElementTree.Element(f"{{{NAMESPACE}}}mover", accent="true")
        accented.extend([base, accent])
        element.tag = f"{{{NAMESPACE}}}msub"
        element[:] = [accented, index]


def _drawn(node: nodes.Element, *, as_block: bool) -> str:
    try:
        return mathml(node.astext(), as_block=as_block)
    except MathError as error:
        # A warning fails the build, so no formula reaches the reader as source.
        logger.warning("cannot draw the formula %r: %s", node.astext(), error, location=node)
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
