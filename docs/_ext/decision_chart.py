"""The chart for choosing a method, drawn as SVG from a list of questions."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["QUESTIONS", "DecisionChart", "Question", "chart", "setup"]


class Question(NamedTuple):
    """A question, the methods to use if the answer is yes, and the page that explains them."""

    text: str
    methods: tuple[str, ...]
    remark: str
    page: str


QUESTIONS = (
    Question(
        "No preference, and some seconds to spare?",
        ("auto",),
        "cross-validates and averages methods",
        "automatic",
    ),
    Question(
        "Fewer than about 500 calibration rows?",
        ("temperature",),
        "for two classes also platt",
        "few_rows",
    ),
    Question(
        "Must the predicted class stay the same?",
        ("shared-map", "iop-diagonal"),
        "or auto with preserve_accuracy=True",
        "preserve_predicted_class",
    ),
    Question(
        "Two classes, or one event?",
        ("beta", "isotonic-centered"),
        "isotonic from some thousand rows",
        "one_vs_rest",
    ),
    Question(
        "Up to about fifty classes?",
        ("shared-matrix", "dirichlet-odir"),
        "a penalised matrix",
        "methods",
    ),
    Question(
        "More classes?",
        ("shared-vector",),
        "one weight and one intercept per class",
        "methods",
    ),
)

WIDTH, ROW, BOX, LEFT, RIGHT = 760, 78, 52, 330, 350


def chart(questions: Sequence[Question], prefix: str = "") -> str:
    """Return the chart as SVG; links go to the pages, relative to ``prefix``."""
    height = ROW * len(questions)
    parts = [
        f'<svg class="decision-chart" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="Chart for choosing a calibration method" xmlns="http://www.w3.org/2000/svg">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 z" class="tip"/></marker></defs>',
    ]
    for number, question in enumerate(questions):
        top = number * ROW + 8
        middle, answer = top + BOX / 2, WIDTH - RIGHT
        parts += [
            f'<rect class="question" x="1" y="{top}" width="{LEFT}" height="{BOX}" rx="10"/>',
            f'<text x="{LEFT / 2}" y="{middle + 5}" text-anchor="middle">{escape(question.text)}</text>',
            f'<path class="arrow" d="M{LEFT + 1} {middle} H{answer - 3}" marker-end="url(#tip)"/>',
            f'<text class="small" x="{(LEFT + answer) / 2}" y="{middle - 6}" text-anchor="middle">yes</text>',
            f'<a href="{prefix}{question.page}.html">',
            f'<rect class="answer" x="{answer}" y="{top}" width="{RIGHT - 1}" height="{BOX}" rx="10"/>',
            f'<text class="name" x="{answer + 14}" y="{top + 22}">{escape(", ".join(question.methods))}</text>',
            f'<text class="small" x="{answer + 14}" y="{top + 40}">{escape(question.remark)}</text></a>',
        ]
        if number + 1 < len(questions):
            parts += [
                f'<path class="arrow" d="M{LEFT / 2} {top + BOX} V{top + ROW - 3}" marker-end="url(#tip)"/>',
                f'<text class="small" x="{LEFT / 2 + 8}" y="{top + BOX + 17}">no</text>',
            ]
    return "\n".join([*parts, "</svg>"])


class DecisionChart(SphinxDirective):
    """The chart for choosing a method."""

    option_spec: ClassVar = {}

    def run(self) -> list[nodes.Node]:
        """Return the chart as raw HTML."""
        depth = self.env.docname.count("/")
        return [nodes.raw("", chart(QUESTIONS, "../" * depth), format="html")]


def setup(app: "Sphinx") -> dict[str, Any]:
    """Register the directive ``decision-chart``."""
    app.add_directive("decision-chart", DecisionChart)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
