"""Pages of reports in a browser and in notebooks."""

import html
import webbrowser
from pathlib import Path
from tempfile import mkdtemp

from calibrant.errors import CalibrationWarning
from calibrant.notices import warn_user

__all__ = ["framed", "opened_page"]


def opened_page(page: str) -> Path:
    """Write a page to a temporary file, open it in the browser, and return its path."""
    path = Path(mkdtemp(prefix="calibrant-"), "report.html")
    path.write_text(page, encoding="utf-8")
    if not webbrowser.open(path.as_uri()):
        warn_user(f"no browser was found; open {path} yourself.", CalibrationWarning)
    return path


def framed(page: str, title: str) -> str:
    """Return a page in a frame, for notebooks."""
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" title="{html.escape(title, quote=True)}" '
        'style="width: 100%; height: 80vh; border: 0"></iframe>'
    )
