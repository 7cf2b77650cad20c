"""``calibrant apply``, ``export`` and ``verify``: what is done with a saved calibrator."""

from pathlib import Path

from calibrant import load
from calibrant.calibrator import Calibrator
from calibrant.cli.console import print_notes, tell
from calibrant.cli.files import (
    check_meaning,
    check_writable,
    noting_probabilities,
    opened_source,
    output_file,
    shown_name,
)
from calibrant.cli.options import is_stream
from calibrant.cli.progress import Progress
from calibrant.errors import PredictionError
from calibrant.export import export as exported
from calibrant.export import verify as compared
from calibrant.export.backend import backend_for
from calibrant.presentation.sentences import counted
from calibrant.remedies import CHOOSE_COLUMNS
from calibrant.space import Space
from calibrant.tables.array_source import ArraySource
from calibrant.tables.columns import (
    ScoreColumns,
    affixes_around,
    labels_in,
    listed,
    shared_affixes,
    without_common_ends,
)
from calibrant.tables.formats import known_ending
from calibrant.tables.rewriting import check_output, rewrite
from calibrant.tables.score_checks import ScoreParser
from calibrant.tables.source import LABEL_NAMES, CompleteRows, Source

__all__ = ["apply", "export", "in_order", "verify"]


def apply(
    file: Path,
    calibrator_path: Path,
    output: Path,
    columns: str | None,
    space: str | None,
    normalise: bool,
    append: bool,
    prefix: str,
    drop_missing: bool = False,
    separator: str | None = None,
    decimal: str | None = None,
) -> None:
    """Replace the scores of a file by calibrated probabilities, or add them as columns."""
    check_writable(output, calibrator_path)
    calibrator = load(calibrator_path)
    kind = Space(space or calibrator.space_)
    with (
        opened_source(file, separator, decimal) as source,
        Progress(f"calibrating {shown_name(file)}") as progress,
        output_file(output, known_ending(source.path)) as path,
    ):
        check_output(source, path)
        progress.expected_rows = source.approximate_rows()
        chosen = columns_for(source, calibrator, calibrator_path, columns, kind)
        check_meaning(file, calibrator, chosen, space)
        parser = ScoreParser(chosen, kind, normalise)
        calibrated = noting_probabilities(calibrator) if space is None else calibrator.predict_proba
        complete = CompleteRows(chosen.names)
        names = chosen.names if isinstance(source, ArraySource) else chosen.classes
        n_rows = rewrite(
            source,
            path,
            chosen,
            parser,
            calibrated,
            appended=[f"{prefix}{name}" for name in names] if append else None,
            select=complete if drop_missing else None,
            progress=progress.rows,
        )
    print_notes(sentence for sentence in (parser.note, complete.note) if sentence)
    where = f"new columns {prefix}*" if append else "score columns now"
    instead = " instead of logits" if kind is Space.LOGITS and not append else ""
    shown = "standard output" if is_stream(output) else output
    tell(f"Wrote {shown} ({counted(n_rows, 'row')}); {where} hold calibrated probabilities{instead}.")


def columns_for(
    source: Source, calibrator: Calibrator, calibrator_path: Path, columns: str | None, space: Space
) -> ScoreColumns:
    """Return the columns of scores in the order of the calibrator's classes.

    Requested columns must have the names of the classes, possibly with a common prefix and suffix, unless classes are
    numbers. By default the columns are those with the names of the columns in the fit, or of the classes, again with a
    common prefix and suffix; for two classes, also the only column of the fit, or the only numeric column.
    """
    expected = [str(name) for name in _names(calibrator)]
    if columns is not None or isinstance(source, ArraySource):
        found = in_order(source.score_columns(columns, LABEL_NAMES, space), expected)
    else:
        found = (
            _by_name(source, expected) or _as_in_fit(source, calibrator) or _only_one(source, expected, space)
        )
    if found is None:
        missing = _missing(source, expected)
        raise PredictionError(
            f"{source.path} has no {'column' if len(missing) == 1 else 'columns'} for the "
            f"{'class' if len(missing) == 1 else 'classes'} {listed(missing)} of {calibrator_path}; "
            f"{CHOOSE_COLUMNS}, or a calibrator fitted for these classes."
            if columns is None
            else f"{calibrator_path} was fitted for the classes {listed(expected)}, but the score columns of "
            f"{source.path} are {listed(source.score_columns(columns, LABEL_NAMES, space).classes)}."
        )
    return found


def _missing(source: Source, expected: list[str]) -> list[str]:
    """Return the classes without a column, if at least half of the classes have one."""
    _, _, covered = shared_affixes(source.columns, expected)
    missing = [name for name in expected if name not in covered]
    return missing if missing and 2 * len(missing) <= len(expected) else expected


def _names(calibrator: Calibrator) -> list[object]:
    names = calibrator.column_names_
    if names is None or len(names) < len(calibrator.classes_):
        names = calibrator.classes_
    return list(names.tolist())


def _as_in_fit(source: Source, calibrator: Calibrator) -> ScoreColumns | None:
    """Return the only column of the fit if the file has it, for two classes."""
    names = calibrator.column_names_
    if names is None or len(names) > 1 or str(names[0]) not in source.columns:
        return None
    return ScoreColumns((str(names[0]),), (str(names[0]),))


def in_order(found: ScoreColumns, expected: list[str]) -> ScoreColumns | None:
    """Return chosen columns in the order of the classes, or None if they are for other classes."""
    if len(found.classes) == 1 and len(expected) == 2:
        return found
    if len(found.classes) != len(expected):
        return None
    numbers = [str(number) for number in range(len(expected))]
    for known in (expected, list(without_common_ends(expected))):
        for names in (found.classes, without_common_ends(found.classes)):
            if sorted(names) == sorted(known):
                if len(found.names) == 1:  # one array, whose columns cannot be reordered
                    return found if list(names) == known else None
                order = [names.index(name) for name in known]
                return ScoreColumns(
                    tuple(found.names[at] for at in order), tuple(found.classes[at] for at in order)
                )
    return found if expected == numbers or list(found.classes) == numbers else None


def _by_name(source: Source, expected: list[str]) -> ScoreColumns | None:
    """Return the columns with the names of the classes, possibly with a common prefix and suffix."""
    available = set(source.columns)
    if available.issuperset(expected):
        return ScoreColumns(tuple(expected), tuple(expected))
    candidates = []
    for column in source.columns:
        for before, after in affixes_around(column, expected[0]):
            wanted = [f"{before}{one}{after}" for one in expected]
            if available.issuperset(wanted):
                candidates.append(ScoreColumns(tuple(wanted), tuple(expected)))
    if len(candidates) > 1:
        several = [candidate.names[0] for candidate in candidates]
        raise PredictionError(
            f"{source.path} has several sets of columns for these classes, with {listed(several)}; {CHOOSE_COLUMNS}."
        )
    return candidates[0] if candidates else None


def _only_one(source: Source, expected: list[str], space: Space) -> ScoreColumns | None:
    """Return the single score column for two classes: named after the positive class, or the only numeric column."""
    if len(expected) != 2:
        return None
    if expected[1] in source.columns:
        return ScoreColumns((expected[1],), (expected[1],))
    found = source.score_columns(None, LABEL_NAMES, space)
    if len(found.classes) != 1 or labels_in(found.names[0], [expected[0]]):  # it is for the other class
        return None
    return found


def export(
    calibrator: Path,
    output: Path,
    space: str | None,
    dtype: str | None,
    columns: tuple[str, ...],
    dialect: str | None,
    table: tuple[str, ...],
    keep: tuple[str, ...],
) -> None:
    """Write a saved calibrator to a file that another system runs."""
    check_writable(output, calibrator)
    backend = backend_for(output)
    given = {"dialect": dialect, "table": table, "keep": keep}
    options = {name: value for name, value in given.items() if value}
    parity = exported(load(calibrator), output, dtype=dtype, space=space, columns=columns or None, **options)
    if parity is None:
        need = f"; to check it, install calibrant[{backend.extra}]" if backend.extra else ""
        tell(f"Wrote {output} ({backend.name}), not checked{need}.")
    else:
        tell(f"Wrote {output} ({backend.name}); {parity}.")


def verify(file: Path, against: Path) -> None:
    """Compare an exported file with its calibrator."""
    parity = compared(file, load(against))
    tell(f"{file} ({parity.backend}) computes what {against} does; {parity}.")
