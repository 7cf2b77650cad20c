"""A real browser for the tests of the page; where there is none they are skipped, and say why."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser():
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(NAMES)} is installed; on Debian: apt-get install chromium")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture(scope="session")
def page_files(tmp_path_factory):
    from sample_assessment import HOSTILE, sample_assessment

    from calibrant.report.document import report_page

    folder = tmp_path_factory.mktemp("pages")
    samples = {
        "two": sample_assessment(2, status="calibrated"),
        "ten": sample_assessment(10),
        "thousand": sample_assessment(1000, status="unclear"),
        "hostile": sample_assessment(10, names=HOSTILE, infinite=True),
    }
    for name, sample in samples.items():
        (folder / f"{name}.html").write_text(report_page(sample), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in samples}


@pytest.fixture
def opened(browser, page_files):
    """Open a page with the network cut off; at the end no console error and no request may have happened."""
    contexts, complaints, requests = [], [], []

    def open_page(name, **options):
        options.setdefault("viewport", {"width": 1200, "height": 900})
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_offline(True)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(page_files[name].as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints
    assert all(url.startswith(("file:", "about:")) for url in requests)
    assert len([url for url in requests if url.startswith("file:")]) == len(contexts)
