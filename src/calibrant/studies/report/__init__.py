"""Write the report of a study: tables, pictures, Markdown and HTML."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from calibrant.errors import ParameterError
from calibrant.persistence.replacing import replacing
from calibrant.studies.pictures import pictures_of_predictions
from calibrant.studies.report.contents import contents_of
from calibrant.studies.report.markdown import report_markdown
from calibrant.studies.report.page import report_page
from calibrant.studies.results import Results, columns_text
from calibrant.studies.shown_checks import check_shown

__all__ = [
    "write_report",
]

FORMATS = ("csv", "markdown", "html")


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
    """Write what came of a study into a folder.

    Parameters
    ----------
    results : Results
        What came of it.
    folder : str or Path
        Gets ``results.csv`` with one line for every unit, ``tables/*.csv``, ``pictures/*.svg`` with the numbers of each
        beside it, ``report.md`` and ``report.html``. It is made if there is none; other files in it stay.
    formats : collection of {"csv", "markdown", "html"}
        Which of them; pictures are written with Markdown, and are inside the page.
    cache_folder : Path, optional
        Where outputs of classifiers are kept, for pictures of predictions.
    runs : sequence of Run, optional
        What the store knows of the runs: versions, processors, times.
    checked : bool, default=False
        Whether tables and pictures have been checked before, so that a recipe whose file has changed since is no obstacle.
    own_code : bool, default=False
        Whether own code of the recipe may run, for pictures of predictions that need it; they are left out otherwise.

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    RecipeError
        If a table or picture asks for what no unit could have, or figures of a paper cannot be read; nothing is written then.
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
