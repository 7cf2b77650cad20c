"""Formulas as MathML, which browsers draw by themselves: no script, no font and no network is needed."""

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

__all__ = ["setup"]

logger = logging.getLogger(__name__)


# amsmath knows which dots are wanted from what follows; the converter knows the two kinds by name.
DOTS = re.compile(r"\\dots\b")


def _mathml(node: nodes.Element, *, as_block: bool) -> str:
    try:
        return tex2mathml(DOTS.sub(r"\\ldots", node.astext()), as_block=as_block)
    except MathError as error:
        # A warning fails the build, so no formula reaches the reader as source.
        logger.warning("cannot draw the formula %r: %s", node.astext(), error, location=node)
        return f"<code>{node.astext()}</code>"


def _visit_inline(translator: "HTML5Translator", node: nodes.math) -> None:
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _visit_block(translator: "HTML5Translator", node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: "Sphinx") -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", inline_renderers=(_visit_inline, None), block_renderers=(_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
