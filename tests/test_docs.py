"""The documentation runs: every example on its pages, and the pages say what there is."""

import doctest
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import calibrant
from calibrant import binning, calibrators, metrics, registry

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    path for pattern in ("*.md", "*.rst") for path in DOCS.rglob(pattern) if "_build" not in path.parts
)
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
CAPTION = re.compile(r"^:caption: *`?([^`\n]+)`?$", re.MULTILINE)
NOT_PYTHON = {"console", "toml", "text", "json"}

every_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))


class Block(NamedTuple):
    """One fenced block of a page."""

    kind: str
    caption: str | None
    body: str
    line: int


def blocks(path: Path) -> Iterator[Block]:
    """Return the fenced blocks of a page that show code."""
    text = path.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        words = fence["info"].split()
        body = fence["body"]
        if words and words[0] == "{code-block}":
            caption = CAPTION.search(body)
            options = re.match(r"(:[^\n]*\n)*\n?", body).group()
            yield Block(words[1], caption and caption[1], body.removeprefix(options), _line(text, fence))
        elif words and not words[0].startswith("{"):
            yield Block(words[0], None, body, _line(text, fence))


def _line(text: str, fence: re.Match[str]) -> int:
    return text.count("\n", 0, fence.start("body"))


@pytest.fixture
def files_of_the_page(tmp_path, monkeypatch):
    """Write the files that a page shows, and install them if they name entry points."""

    def write(path: Path) -> None:
        for block in blocks(path):
            if block.caption is None:
                continue
            (tmp_path / block.caption).write_text(block.body, encoding="utf-8")
            if block.caption == "pyproject.toml":
                project = tomllib.loads(block.body)["project"]
                folder = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
                folder.mkdir()
                (folder / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
                lines = [
                    line
                    for group, names in project["entry-points"].items()
                    for line in (f"[{group}]", *(f"{name} = {target}" for name, target in names.items()))
                ]
                (folder / "entry_points.txt").write_text("\n".join(lines))
        monkeypatch.syspath_prepend(tmp_path)
        registry._classes.cache_clear()
        registry._factories.cache_clear()

    before = set(sys.modules)
    yield write
    monkeypatch.undo()
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or ".").parent == tmp_path:
            del sys.modules[name]
    registry._classes.cache_clear()
    registry._factories.cache_clear()


@every_page
def test_the_examples_of_a_page_run(path, files_of_the_page):
    files_of_the_page(path)
    parser, examples = doctest.DocTestParser(), []
    for block in blocks(path):
        if block.kind == "pycon":
            for example in parser.get_examples(block.body):
                example.lineno += block.line
                examples.append(example)
    source = path.read_text(encoding="utf-8")
    test = doctest.DocTest(examples, {"__name__": "__main__"}, path.name, str(path), 0, source)
    output: list[str] = []
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=output.append)
    assert results.failed == 0, "".join(output)


@every_page
def test_code_on_a_page_is_code_that_runs(path):
    """Python stands behind a prompt, or in a file with a name, which the examples then import."""
    for block in blocks(path):
        assert block.kind in {"pycon", *NOT_PYTHON} or block.caption, f"line {block.line}: {block.kind}"
        if block.kind == "pycon":
            assert block.body.startswith(">>> "), f"line {block.line}"


def described() -> set[str]:
    """Return every name that some page describes in full."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
    return set(
        re.findall(r"^\.\. auto(?:class|function|data|exception):: calibrant\.([\w.]+)$", text, re.MULTILINE)
    )


@pytest.mark.parametrize(
    "name",
    [
        *calibrant.__all__,
        *(f"metrics.{name}" for name in metrics.__all__),
        *(f"binning.{name}" for name in binning.__all__ if name != "Closed"),
    ],
)
def test_every_public_name_is_described_on_some_page(name):
    assert name in described()


@pytest.mark.parametrize("name", calibrators.__all__)
def test_every_calibrator_has_a_section_of_its_own(name):
    text = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
    assert re.search(rf"^\.\. autoclass:: calibrant\.{name}$", text, re.MULTILINE)


def test_every_entry_of_the_bibliography_is_cited():
    entries = re.findall(
        r"^@\w+\{([^,\s]+),", (DOCS / "references.bib").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(entries) == len(set(entries))
    texts = [path.read_text(encoding="utf-8") for path in [*PAGES, *(ROOT / "src").rglob("*.py")]]
    cited = {
        key.strip()
        for text in texts
        for keys in re.findall(r"(?::cite(?::\w+)?:|\{cite(?::\w+)?\})`([^`]+)`", text)
        for key in keys.split(",")
    }
    assert set(entries) == cited


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    main = pytest.importorskip("sphinx.cmd.build").main
    assert (
        main(
            [
                "-W",
                "--keep-going",
                "-q",
                "-b",
                "html",
                "-d",
                str(tmp_path / "trees"),
                str(DOCS),
                str(tmp_path / "html"),
            ]
        )
        == 0
    )
