"""Tables of what the papers contain, and all their figures."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from method_tables import _codes, _table, _text
from paper_items import ROOT, Item, items
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["PaperFigures", "PaperTable", "setup"]


class PaperTable(SphinxDirective):
    """All items of a paper: what, where it is here, and how close it comes."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        (key,) = self.arguments
        rows = []
        for item in items():
            if item.paper == key:
                name = (
                    item.name
                    if item.kind in ("method", "metric", "test")
                    else f"{item.kind.title()} {item.name}"
                )
                rows.append(
                    [_text(item.kind), _text(name), _here(item), _text(item.closeness())]
                )
        head = [_text(word) for word in ("kind", "what", "here", "how close")]
        return [_table(head, rows, "paper-table")]


def _here(item: Item) -> list[nodes.Node]:
    names = [
        f"{each.name.replace('tests/known_values/', '')}"
        if each.kind == "test"
        else each.name
        for each in item.here
    ]
    return _codes(names) if names else _text("–")


class PaperFigures(SphinxDirective):
    """All figures of a paper that show data, each below its number."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return headings, images and notes."""
        (key,) = self.arguments
        depth = len(Path(self.env.docname).parts) - 1
        up = "../" * (depth + 1)
        found: list[nodes.Node] = []
        for item in items():
            if item.paper != key or item.kind != "figure" or item.result == "no data":
                continue
            found.append(nodes.rubric("", f"Figure {item.name}"))
            if item.note:
                found.append(
                    nodes.paragraph("", item.note[:1].upper() + item.note[1:] + ".")
                )
            for each in item.here:
                found.extend(
                    nodes.image(
                        uri=up + path.relative_to(ROOT).as_posix(),
                        alt=f"Figure {item.name}",
                        width="60%",
                    )
                    for path in each.pictures()
                )
                if each.kind == "gallery":
                    section, script = each.name.split("/")
                    uri = f"{'../' * depth}gallery/{section}/images/sphx_glr_{script}_001.png"
                    found.append(
                        nodes.image(uri=uri, alt=f"Figure {item.name}", width="60%")
                    )
        return found


def setup(app: "Sphinx") -> dict[str, Any]:
    """Register the directives ``paper-table`` and ``paper-figures``."""
    app.add_directive("paper-table", PaperTable)
    app.add_directive("paper-figures", PaperFigures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
