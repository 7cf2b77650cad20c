"""What the papers contain, where it is here and how close it comes, from papers.toml; needs no Sphinx."""

import csv
import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import calibrant.metrics
from calibrant import registry
from calibrant.conventions import convention

__all__ = [
    "KINDS",
    "RESULTS",
    "ROOT",
    "Item",
    "Reference",
    "closeness",
    "items",
    "papers",
]

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
KINDS = ("method", "metric", "test", "table", "figure")
RESULTS = (
    "to the digit",
    "within",
    "in outline",
    "inputs not obtainable",
    "no data",
    "computed",
)
PICTURE_ENDINGS = (".svg", ".webp", ".png")


@dataclass(frozen=True)
class Reference:
    """Where something is: a kind and a name, such as ``method:temperature``."""

    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> "Reference":
        """Split a reference at its colon."""
        kind, _, name = text.partition(":")
        return cls(kind, name)

    def exists(self) -> bool:
        """Return whether the thing exists."""
        if self.kind == "method":
            return self.name in registry.calibrators()
        if self.kind == "metric":
            return self.name in calibrant.metrics.__all__
        if self.kind == "convention":
            paper, _, metric = self.name.partition(".")
            return metric in convention(paper).metrics
        if self.kind == "api":
            return _has(self.name)
        if self.kind == "table":
            return self.in_recipe("tables") and self.csv_file() is not None
        if self.kind == "column":
            path = self.csv_file()
            return (
                self.in_recipe("tables") and path is not None and bool(self.closeness())
            )
        if self.kind == "picture":
            return self.in_recipe("pictures") and bool(self.pictures())
        if self.kind == "image":
            return bool(self.pictures())
        if self.kind == "gallery":
            return (ROOT / "examples" / "gallery" / f"{self.name}.py").is_file()
        if self.kind == "page":
            return (DOCS / f"{self.name}.md").is_file()
        if self.kind == "test":
            return (ROOT / self.name).is_file()
        return False

    @property
    def place(self) -> tuple[str, str, str]:
        """Folder of the study, folder of the results in it, and name."""
        parts = self.name.split("/")
        study, *forms, name = parts[:-1] if self.kind == "column" else parts
        return study, "/".join(["results", *forms[:1]]), name

    @property
    def column(self) -> str:
        """Column of the table, empty for all."""
        return self.name.rpartition("/")[2] if self.kind == "column" else ""

    def closeness(self) -> str:
        """Return how close a table, or a column of it, comes to the paper; empty if it has no numbers of the paper."""
        path = self.csv_file()
        return "" if path is None else closeness(path, self.column)

    def in_recipe(self, kind: str) -> bool:
        """Return whether a recipe of the study has this table or picture."""
        study, _, name = self.place
        for path in (ROOT / "studies" / study).glob("*.toml"):
            content = tomllib.loads(path.read_text(encoding="utf-8"))
            if any(entry["name"] == name for entry in content.get(kind, [])):
                return True
        return False

    def csv_file(self) -> Path | None:
        """Return the file of a table's numbers; None if it does not exist."""
        study, results, name = self.place
        path = ROOT / "studies" / study / results / "tables" / f"{name}.csv"
        return path if path.is_file() else None

    def pictures(self) -> list[Path]:
        """Return the image files of a picture, which may have several parts."""
        study, results, name = self.place
        folder = ROOT / "studies" / study / results / "pictures"
        if self.kind == "image":
            return [path for path in [folder / name] if path.is_file()]
        return sorted(
            path
            for path in folder.glob(f"{name}*")
            if path.suffix in PICTURE_ENDINGS
            and (path.stem == name or path.stem.startswith(f"{name}-"))
        )


@dataclass(frozen=True)
class Item:
    """A method, metric, test, table or figure of a paper."""

    paper: str
    kind: str
    name: str
    here: tuple[Reference, ...]
    result: str
    note: str = ""

    def closeness(self) -> str:
        """Return how close it comes, in words."""
        if self.result == "computed":
            known = {
                each.column or each.place[-1]: words
                for each in self.here
                if each.kind in ("table", "column") and (words := each.closeness())
            }
            one = len(known) == 1
            text = "; ".join(
                words if one else f"{name}: {words}" for name, words in known.items()
            )
            return f"{text} ({self.note})" if self.note else text
        if self.result == "within":
            return f"within {self.note}"
        return f"{self.result}: {self.note}" if self.note else self.result


def papers() -> list[dict[str, Any]]:
    """Return the papers with the numbers of their tables and figures."""
    found: list[dict[str, Any]] = _content()["papers"]
    return found


def items() -> list[Item]:
    """Return all items."""
    return [
        Item(**{**entry, "here": tuple(map(Reference.parse, entry["here"]))})
        for entry in _content()["items"]
    ]


def _content() -> dict[str, Any]:
    return tomllib.loads((DOCS / "papers.toml").read_text(encoding="utf-8"))


def _has(name: str) -> bool:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def closeness(path: Path, column: str = "") -> str:
    """Return how many numbers agree with the paper to its digits, and the median and the largest difference."""
    differences, digits = [], 0
    for ours, paper in _pairs(path, column):
        differences.append(abs(float(ours) - float(paper)))
        digits = max(digits, len(paper.partition(".")[2]))
    if not differences:
        return ""
    exact = sum(difference <= 0.5000001 * 10.0**-digits for difference in differences)
    if exact == len(differences):
        return f"to the digit, all {exact} numbers"
    middle, largest = (
        f"{sorted(differences)[k]:.2g}" for k in (len(differences) // 2, -1)
    )
    half = "" if middle == largest else f"within {middle} for half of them and "
    return f"{exact} of {len(differences)} numbers to the digit; {half}within {largest} for all"


def _pairs(path: Path, column: str) -> Iterator[tuple[str, str]]:
    """Yield our number and the paper's, of one column or all, for the rows but not for average ranks of the footer."""
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            ours, paper = row["ours"], row["paper"]
            if "average rank" in row.values() or not ours or not paper:
                continue
            if column and column not in row.values():
                continue
            if math.isfinite(float(ours)) and math.isfinite(float(paper)):
                yield ours, paper
