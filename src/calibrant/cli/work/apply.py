"""``calibrant apply``: write calibrated probabilities to a file."""

from pathlib import Path

from calibrant import load
from calibrant.cli.calibrator_columns import columns_for
from calibrant.cli.notes import note, said
from calibrant.cli.options import check_writable
from calibrant.cli.score_meaning import check_meaning, noting_probabilities
from calibrant.cli.waiting import Waiting
from calibrant.space import Space
from calibrant.tables.file_set import open_source
from calibrant.tables.npz_format import NpzSource
from calibrant.tables.rewriting import check_output, rewrite
from calibrant.tables.score_checks import ScoreParser
from calibrant.wording import counted

__all__ = ["apply"]


def apply(
    file: Path,
    calibrator_path: Path,
    output: Path,
    columns: str | None,
    space: str | None,
    normalise: bool,
    append: bool,
    prefix: str,
) -> None:
    """Replace the scores of a file by calibrated probabilities, or add them as columns."""
    check_writable(output, calibrator_path)
    if not calibrator_path.exists():
        raise FileNotFoundError(2, "No such file", str(calibrator_path))
    calibrator = load(calibrator_path)
    kind = Space(space or calibrator.space_)
    with open_source(file) as source, Waiting(f"calibrating {file.name}") as waiting:
        check_output(source, output)
        waiting.expected_rows = source.approximate_rows()
        chosen = columns_for(source, calibrator, calibrator_path, columns, kind)
        check_meaning(file, calibrator, chosen, space)
        parser = ScoreParser(chosen, kind, normalise)
        calibrated = noting_probabilities(calibrator) if space is None else calibrator.predict_proba
        names = chosen.names if isinstance(source, NpzSource) else chosen.classes
        n_rows = rewrite(
            source,
            output,
            chosen,
            parser,
            calibrated,
            appended=[f"{prefix}{name}" for name in names] if append else None,
            progress=waiting.rows,
        )
    if parser.note:
        note(parser.note)
    where = f"new columns {prefix}*" if append else "score columns now"
    instead = " instead of logits" if kind is Space.LOGITS and not append else ""
    said(f"Wrote {output} ({counted(n_rows, 'row')}); {where} hold calibrated probabilities{instead}.")
