"""Write the report of a study: tables and figures as CSV, LaTeX, Markdown and HTML."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from calibrant.errors import ParameterError
from calibrant.persistence.replacing import replacing
from calibrant.presentation import as_latex
from calibrant.studies.pictures import pictures_of_predictions
from calibrant.studies.report.contents import contents_of
from calibrant.studies.report.markdown import report_markdown
from calibrant.studies.report.page import report_page
from calibrant.studies.results import Results, columns_text
from calibrant.studies.shown_checks import check_shown

__all__ = ["write_report"]

FORMATS = ("csv", "latex", "markdown", "html")


def write_report(
    results: Results,
    folder: str | Path,
    formats: Collection[str] = FORMATS,
    *,
    cache_folder: Path | None = None,
    runs: Sequence[Any] = (),
    checked: bool = False,
    own_code: bool = False,
) -> list[Path]:
    """Write the report of a study to a folder.

    Parameters
    ----------
    results : Results
    folder : str or Path
        Receives ``results.csv`` with one line per unit, ``tables/*.csv`` and ``tables/*.tex`` (with booktabs rules),
        ``pictures/*.svg`` with their numbers as CSV, ``report.md`` and ``report.html``. Created if it does not exist; other
        files in it are kept.
    formats : collection of {"csv", "latex", "markdown", "html"}
        Formats to write. SVG files are written with Markdown; the page contains the figures.
    cache_folder : Path, optional
        Folder of cached predictions of classifiers, for diagrams of predictions.
    runs : sequence of Run, optional
        Runs of the store: versions, processors, times.
    checked : bool, default=False
        Whether tables and figures have already been checked, so that later changes of the recipe file do not matter.
    own_code : bool, default=False
        Whether the recipe's own code may run, for diagrams of predictions that need it; they are skipped otherwise.

    Returns
    -------
    list of Path
        Paths of the written files.

    Raises
    ------
    RecipeError
        If a table or figure has labels or values that no unit has, or published numbers cannot be read; nothing is
        written then.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ParameterError(f"formats must be some of {', '.join(FORMATS)}, not {unknown[0]!r}.")
    if not checked:
        check_shown(results.plan)
    contents = contents_of(results, pictures_of_predictions(cache_folder, own_code), runs)
    files: dict[str, bytes] = {}
    if "csv" in formats:
        files["results.csv"] = columns_text(results).encode()
        for table in contents.tables:
            files[f"tables/{table.options.name}.csv"] = table.to_csv().encode()
        for picture in contents.pictures:
            files |= {f"pictures/{name}.csv": text.encode() for name, text in picture.numbers.items()}
    if "latex" in formats:
        for table in contents.tables:
            shown = replace(table.presented(), caption=table.options.caption)
            files[f"tables/{table.options.name}.tex"] = as_latex(shown).encode()
    if "markdown" in formats:
        for picture in contents.pictures:
            drawn = {f"pictures/{name}.svg": svg for name, svg in picture.drawings.items() if svg is not None}
            files |= drawn
        files["report.md"] = report_markdown(contents).encode()
    if "html" in formats:
        files["report.html"] = report_page(contents).encode()
    written = []
    for name, content in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as stream:
            stream.write(content)
        written.append(path)
    return written
