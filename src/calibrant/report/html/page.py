"""The page: an assessment as one HTML file that opens anywhere, without a network, now and in ten years."""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from calibrant.errors import MissingExtraError
from calibrant.report.html.markup import Markup
from calibrant.report.html.sections import contents_of

if TYPE_CHECKING:  # the assessment knows its page, so the page may not import it in turn
    from calibrant.report.assessment import Assessment

__all__ = ["html_of"]


def html_of(assessment: "Assessment") -> str:
    """Return the page of an assessment.

    All it needs is inside; its security policy lets in nothing else, not even a script in the name of a class.

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
    style, script = resource("style.css"), resource("script.js")
    contents: dict[str, Any] = contents_of(assessment)
    page: str = environment.get_template("page.html").render(
        **contents,
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; img-src data:; style-src '{digest(style)}'; script-src '{digest(script)}'; "
        "base-uri 'none'; form-action 'none'",
    )
    return page.lstrip() + "\n"  # macros leave empty lines before the first tag


def resource(name: str) -> str:
    """Return a file that lies beside this one."""
    return files("calibrant.report.html").joinpath(name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """Return what a browser compares a style or script on the page with before it lets it run."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
