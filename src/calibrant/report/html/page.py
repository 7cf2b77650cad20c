"""Render an assessment as one self-contained HTML file that needs no network."""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from calibrant.errors import MissingExtraError
from calibrant.export.json_file import interpreter_source
from calibrant.report.html.markup import Markup
from calibrant.report.html.sections import contents_of

if TYPE_CHECKING:  # a run-time import would be circular
    from calibrant.report.assessment import Assessment

__all__ = ["html_of"]


def html_of(assessment: "Assessment") -> str:
    """Return the HTML page of an assessment.

    The page is self-contained. Its content security policy blocks everything else, even a script in the name of a class.

    Parameters
    ----------
    assessment : Assessment

    Returns
    -------
    str

    Raises
    ------
    MissingExtraError
        If jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError("jinja2", "report") from error

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(resource),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    contents: dict[str, Any] = contents_of(assessment)
    style, script = resource("style.css"), resource("script.js")
    if contents["parts"]["example"]:
        script = interpreter_source() + script
    page: str = environment.get_template("page.html").render(
        **contents,
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; img-src data:; style-src '{digest(style)}'; script-src '{digest(script)}'; "
        "base-uri 'none'; form-action 'none'",
    )
    return page.lstrip() + "\n"  # macros leave empty lines at the top


def resource(name: str) -> str:
    """Return the content of a file in this package."""
    folder = "calibrant.presentation" if name == "style.css" else "calibrant.report.html"
    return files(folder).joinpath(name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """Return the hash of an inline style or script for the content security policy."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
