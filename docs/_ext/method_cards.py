"""A card at the head of every method's description: names, properties, cost, exports and paper."""

import inspect
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from method_tables import cls_names, exports

import calibrant
import calibrant.calibrators
from calibrant import Calibrator, Traits
from calibrant.export import backends

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["card", "setup"]

COST = re.compile(r"(?:^|\s)Costs ((?:[^.:]|[.:](?!\s|$)|:(?=\s*math))+)[.:](?:\s|$)")
CITATION = re.compile(r":cite(?::\w+)?:`([^`]+)`")
YES, NO = "yes", "no"


def card(cls: type) -> list[str]:
    """Return the card of a calibrator as lines of reStructuredText; nothing for classes that have no name."""
    names = sorted(cls_names(cls))
    if not names or not issubclass(cls, Calibrator):
        return []
    made = calibrant.registry.make(names[0])
    traits: Traits = made.traits
    documentation = " ".join((inspect.getdoc(cls) or "").split())
    rows = [
        ("Names", ", ".join(f"``{name}``" for name in names)),
        (
            "Classes",
            "two, one event" if traits.binary_only else "two or more",
        ),
        (
            "Predicted class",
            "never changes" if traits.keeps_argmax else "may change",
        ),
        ("Contains the identity", YES if traits.contains_identity else NO),
        (
            "``partial_fit``",
            YES if made.batches is not None else NO,
        ),
        ("Exports", _exports(names[0])),
    ]
    cost = COST.search(documentation)
    if cost:
        rows.insert(5, ("Cost", cost[1]))
    papers = dict.fromkeys(
        key.strip() for keys in CITATION.findall(documentation) for key in keys.split(",")
    )
    if papers:
        rows.append(("Paper", f":cite:t:`{next(iter(papers))}`"))
    lines = [".. list-table::", "   :class: method-card", "   :widths: auto", ""]
    for name, value in rows:
        lines += [f"   * - {name}", f"     - {value}"]
    return [*lines, ""]


@cache
def _exports(name: str) -> str:
    found = exports(name)
    if len(found) == 1:
        return f"none: {found[0]}"
    pairs = zip(backends(), found, strict=True)
    return ", ".join(backend.name for backend, text in pairs if text == "✓") or "none"


def _insert(
    _app: "Sphinx", what: str, _name: str, described: Any, _options: Any, lines: list[str]
) -> None:
    """Put the card below the first line of the description of a method."""
    if what != "class" or described.__name__ not in calibrant.calibrators.__all__:
        return
    end = lines.index("") + 1 if "" in lines else len(lines)
    lines[end:end] = card(described)


def setup(app: "Sphinx") -> dict[str, Any]:
    """Insert the cards after the sections of docstrings have been parsed."""
    app.connect("autodoc-process-docstring", _insert, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
