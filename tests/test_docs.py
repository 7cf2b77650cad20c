"""The documentation runs: every example on its pages, and the pages say what there is."""

import doctest
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

import calibrant
from calibrant import (
    binning,
    comparison,
    conventions,
    distributed,
    errors,
    export,
    hypothesis_tests,
    intervals,
    metrics,
    mlflow,
    objective,
    online,
    plots,
    ranking,
    registry,
    report,
    scorers,
    solvers,
    streaming,
    studies,
    synthetic,
    tables,
)

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for pattern in ("*.md", "*.rst")
    for path in DOCS.rglob(pattern)
    if not {"_build", "gallery", "tutorials"} & set(path.parts)
)
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
CAPTION = re.compile(r"^:caption: *`?([^`\n]+)`?$", re.MULTILINE)
NOT_PYTHON = {"console", "toml", "text", "json", "javascript", "html", "sql"}

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
        forget_plugins()

    before = set(sys.modules)
    yield write
    monkeypatch.undo()
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or ".").parent == tmp_path:
            del sys.modules[name]
    forget_plugins()


def forget_plugins() -> None:
    for found in (registry._classes, registry._factories, export.backends, tables.formats):
        found.cache_clear()


# Extras that an environment may lack: named by a page's import, or needed behind the scenes.
OPTIONAL = re.compile(
    r"^(?:>>>|\.\.\.) +(?:import|from) (torch|mlflow|skops|duckdb|onnxruntime)\b", re.MULTILINE
)
LIBRARIES = {"export.md": {"onnxruntime", "torch"}, "sql.md": {"duckdb"}}


# Pages whose examples take more than half a minute.
LONG_PAGES = {"nonparametric.md"}


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.slow if path.name in LONG_PAGES else ()) for path in PAGES],
    ids=lambda path: str(path.relative_to(DOCS)),
)
def test_the_examples_of_a_page_run(path, files_of_the_page):
    named = OPTIONAL.findall(path.read_text(encoding="utf-8"))
    for package in sorted({*named, *LIBRARIES.get(path.name, ())}):
        # MLflow warns of its own type hints when this part of it is imported, which importorskip forgives.
        module = {"mlflow": "mlflow.pyfunc"}.get(package, package)
        pytest.importorskip(module, reason=f"{package} is not installed, which {path.name} shows")
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


PUBLIC = [
    *calibrant.__all__,
    *(
        f"{module.__name__.removeprefix('calibrant.')}.{name}"
        for module in (
            metrics,
            conventions,
            export,
            hypothesis_tests,
            intervals,
            comparison,
            plots,
            report,
            tables,
            ranking,
            online,
            streaming,
            distributed,
            mlflow,
            scorers,
            binning,
            objective,
            solvers,
            synthetic,
            studies,
        )
        for name in module.__all__
        if name not in calibrant.__all__
        if inspect.isroutine(getattr(module, name)) or inspect.isclass(getattr(module, name))
    ),
]
every_public_name = pytest.mark.parametrize("name", PUBLIC)


def text_of_all_pages() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in PAGES)


def modules_of(directive: str) -> list[str]:
    """Return the modules whose public names a directive of docs/_ext/public_names.py lists or describes."""
    arguments = re.findall(rf"^```{{{directive}}} (.+)$", text_of_all_pages(), re.MULTILINE)
    return [module for modules in arguments for module in modules.split()]


@every_public_name
def test_every_public_name_is_described_on_one_page(name):
    directive = rf"^\.\. auto(class|function):: calibrant\.{re.escape(name)}$"
    by_hand = len(re.findall(directive, text_of_all_pages(), re.MULTILINE))
    found = by_hand + modules_of("describe-names").count(f"calibrant.{name.rpartition('.')[0]}")
    assert found == 1, (
        f"{name} is described {found} times; write '.. autoclass:: calibrant.{name}' (autofunction for a function) once, "
        "for a method in docs/methods.md."
    )


@every_public_name
def test_every_public_name_is_listed_in_the_reference(name):
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    by_hand = len(re.findall(rf"^   {re.escape(name)}$", page, re.MULTILINE))
    found = by_hand + modules_of("public-names").count(f"calibrant.{name}".rpartition(".")[0])
    assert found == 1, (
        f"docs/api.md lists {name} {found} times; give it one line, with three spaces before the name."
    )


@pytest.mark.parametrize(
    "name", [name.rpartition(".")[2] for name in PUBLIC] + errors.__all__ + registry.__all__
)
def test_every_public_name_is_in_the_changelog(name):
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"`([\w.]+\.)?{name}`", changelog), (
        f"CHANGELOG.md does not mention `{name}`; add a line to its first section."
    )


def test_every_entry_of_the_bibliography_is_cited():
    entries = re.findall(
        r"^@\w+\{([^,\s]+),", (DOCS / "references.bib").read_text(encoding="utf-8"), re.MULTILINE
    )
    twice = sorted({key for key in entries if entries.count(key) > 1})
    assert not twice, f"docs/references.bib has {twice} twice; delete one of each."
    texts = [path.read_text(encoding="utf-8") for path in [*PAGES, *(ROOT / "src").rglob("*.py")]]
    cited = {
        key.strip()
        for text in texts
        for keys in re.findall(r"(?::cite(?::\w+)?:|\{cite(?::\w+)?\})`([^`]+)`", text)
        for key in keys.split(",")
    }
    unused, missing = sorted(set(entries) - cited), sorted(cited - set(entries))
    assert not unused, (
        f"no page and no docstring cites {unused}; cite them, or remove them from docs/references.bib."
    )
    assert not missing, (
        f"docs/references.bib has no entry for {missing}, which pages or docstrings cite; add them."
    )


@pytest.fixture
def drawn(monkeypatch):
    """The function that turns formulas into MathML."""
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(DOCS / "_ext")
    return lambda formula: re.sub(r"\s+", "", import_module("mathml").mathml(formula, as_block=True))


def test_the_index_of_an_accented_letter_stands_beside_it(drawn):
    hat = r'<moveraccent="true"><mi>q</mi><mostretchy="false">.</mo></mover>'
    assert re.search(rf"<msub>{hat}<mi>i</mi></msub>", drawn(r"\hat q_i"))


def test_the_index_of_a_sum_stays_below_it(drawn):
    assert re.search(r"<munder><mo[^>]*>∑</mo><mi>i</mi></munder>", drawn(r"\sum_i"))


@pytest.mark.parametrize(("short", "long"), [(r"\frac12", r"\frac{1}{2}"), (r"a, \dots, b", r"a, \ldots, b")])
def test_short_forms_of_latex_are_understood(drawn, short, long):
    assert drawn(short) == drawn(long)


@pytest.mark.parametrize(("formula", "apart"), [(r"\ln p", True), (r"\ln (p)", False)])
def test_functions_are_set_apart_from_arguments_without_brackets(drawn, formula, apart):
    assert ("rspace" in drawn(formula)) is apart


@pytest.mark.parametrize(
    ("name", "expected"),
    [("temperature", "✓"), ("knn-kl", "calibration set"), ("forest", "temperature scaling")],
)
def test_the_table_of_exports_says_which_methods_have_none(name, expected, monkeypatch):
    for library in ("sphinx", "onnx", "torch"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.syspath_prepend(DOCS / "_ext")
    assert expected in import_module("method_tables").exports(name)[0]


def test_a_new_metric_describes_itself(monkeypatch):
    """A name in ``__all__`` is all that the pages need."""
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(DOCS / "_ext")
    pages = import_module("public_names")

    def ranked_probability_score():
        """Ranked probability score."""

    ranked_probability_score.__module__ = metrics.log_loss.__module__
    monkeypatch.setattr(metrics, "ranked_probability_score", ranked_probability_score, raising=False)
    monkeypatch.setattr(metrics, "__all__", [*metrics.__all__, "ranked_probability_score"])
    described = pages.descriptions("calibrant.metrics").splitlines()
    assert described.count(".. autofunction:: calibrant.metrics.ranked_probability_score") == 1
    assert pages.listing(["calibrant.metrics"]).count("metrics.ranked_probability_score") == 1


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    options = ["-W", "--keep-going", "-q", "-b", "html", "-d", str(tmp_path / "trees")]
    command = [sys.executable, "-m", "sphinx", *options, str(DOCS), str(tmp_path / "html")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert "<math" in (tmp_path / "html" / "methods.html").read_text(encoding="utf-8")
