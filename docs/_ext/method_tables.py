"""Tables of methods, metrics and file formats, read from the package while the site is built."""

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

import calibrant
import calibrant.calibrators
import calibrant.metrics
from calibrant import Calibrator, Traits, registry
from calibrant.errors import ExportError, NoGraphError
from calibrant.export import Backend, Exportable, backends, exportable
from calibrant.tables import formats

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["CalibratorTable", "ExportTable", "FormatTable", "MetricTable", "setup"]

Cell = list[nodes.Node]

NO_NAME = "–"


class CalibratorTable(SphinxDirective):
    """Every calibrator of the package, its names in the registry and the traits it claims."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        traits = [field.name for field in fields(Traits)]
        head = [
            _text("class"),
            _text("registry names"),
            *(_text(name.replace("_", " ")) for name in traits),
        ]
        rows = []
        for class_name in calibrant.calibrators.__all__:
            cls = getattr(calibrant, class_name)
            names = sorted(cls_names(cls))
            row = [
                _reference("class", class_name),
                _codes(names) if names else _text(NO_NAME),
            ]
            rows.append(row + [_text(claim) for claim in claims(cls, traits)])
        return [_table(head, rows, "method-table")]


class MetricTable(SphinxDirective):
    """Every metric of the package with the first line of its docstring."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = []
        for name in registry.metrics():
            docstring = inspect.getdoc(getattr(calibrant.metrics, name)) or ""
            rows.append(
                [_reference("func", f"metrics.{name}"), _text(docstring.splitlines()[0])]
            )
        return [_table([_text("metric"), _text("what it is")], rows, "metric-table")]


class ExportTable(SphinxDirective):
    """Every name of the registry, and the kinds of files to which a fitted calibrator of it can be exported."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        head = [_text("method"), *(_text(backend.name) for backend in backends())]
        rows = []
        for name in registry.calibrators():
            row = [_codes([name])]
            rows.append(row + [_text(text) for text in exports(name)])
        return [_table(head, rows, "export-table")]


class FormatTable(SphinxDirective):
    """Every file format of predictions with its extensions and a remark; one row for formats with one reader."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows: dict[Any, tuple[str, list[str], str]] = {}
        for each in formats():
            _, endings, _ = rows.setdefault(each.reader, (each.name, [], each.about))
            endings += each.endings
        lines = ["| format | extensions | notes |", "|---|---|---|"]
        for name, endings, about in rows.values():
            codes = ", ".join(f"`{ending}`" for ending in endings)
            lines.append(f"| {name} | {codes} | {about} |")
        return self.parse_text_to_nodes("\n".join(lines))


def exports(name: str) -> list[str]:
    """Return a tick or the reason against it for every back end, or one reason for all; from a small fit."""
    calibrator = registry.make(name)
    n_classes = 2 if calibrator.traits.binary_only else 3
    generator = np.random.default_rng(0)
    scores = generator.dirichlet(np.ones(n_classes), 200)
    labels = (scores.cumsum(axis=1) < generator.random((200, 1))).sum(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator.fit(scores, np.minimum(labels, n_classes - 1))
        if getattr(calibrator, "identity_kept_", False):
            calibrator.identity_kept_ = False  # the map itself is asked for
        try:
            content = exportable(calibrator)
        except NoGraphError as error:
            return [str(error).partition("because ")[2]]
        with TemporaryDirectory() as folder:
            return [_exported(content, backend, Path(folder)) for backend in backends()]


def _exported(content: Exportable, backend: Backend, folder: Path) -> str:
    try:
        backend.write(content, folder / f"calibrator{backend.endings[0]}", {})
    except ExportError as error:
        return str(error)
    return "✓"


def cls_names(cls: type) -> set[str]:
    """Return the names under which the registry makes a class."""
    return {name for name in registry.calibrators() if type(registry.make(name)) is cls}


def claims(cls: type, traits: Sequence[str]) -> list[str]:
    """Return a tick or nothing for each trait, or one text on what they all depend on."""
    own = getattr(cls, "traits", None)
    if not isinstance(own, Traits) and issubclass(cls, Calibrator):
        try:
            own = cls().traits  # of the defaults, where they depend on parameters
        except TypeError:
            return ["depends on its parts"]
    if isinstance(own, Traits):
        return ["✓" if getattr(own, name) else "" for name in traits]
    return ["those of its method"]  # what is no Calibrator has a calibrator inside


def _text(text: str) -> Cell:
    return [nodes.Text(text)]


def _codes(names: Sequence[str]) -> Cell:
    cell: Cell = []
    for name in names:
        cell += [nodes.Text(", ")] if cell else []
        cell.append(nodes.literal(name, name))
    return cell


def _reference(kind: str, name: str) -> Cell:
    """Return a link to the description of ``calibrant.<name>``, which must exist."""
    target = f"calibrant.{name}"
    shown = name.rpartition(".")[2]
    reference = addnodes.pending_xref(
        "",
        nodes.literal(shown, shown, classes=["xref", "py"]),
        refdomain="py",
        reftype=kind,
        reftarget=target,
    )
    reference["refwarn"] = True
    return [reference]


def _table(
    head: Sequence[Cell], rows: Sequence[Sequence[Cell]], name: str
) -> nodes.table:
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    group += nodes.thead("", _row(head, len(head)))
    group += nodes.tbody("", *(_row(row, len(head)) for row in rows))
    return nodes.table("", group, classes=[name, "colwidths-auto"])


def _row(cells: Sequence[Cell], n_columns: int) -> nodes.row:
    entries = [nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells]
    if len(entries) < n_columns:
        entries[-1]["morecols"] = n_columns - len(entries)
    return nodes.row("", *entries)


def setup(app: "Sphinx") -> dict[str, Any]:
    """Register the directives ``calibrator-table``, ``export-table`` and ``metric-table``."""
    app.add_directive("calibrator-table", CalibratorTable)
    app.add_directive("export-table", ExportTable)
    app.add_directive("format-table", FormatTable)
    app.add_directive("metric-table", MetricTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
