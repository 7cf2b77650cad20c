"""What the README and the examples show works as printed, and the files that the README names exist."""

import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import calibrant
from calibrant import registry

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BOUNDARY = "=== end of block ==="


class Block(NamedTuple):
    """A piece of code in the README: its language, its lines, and what the block right after it shows."""

    language: str
    text: str
    printed: str | None


def blocks() -> list[Block]:
    found = [
        (match["language"], match["text"], match.start(), match.end())
        for match in re.finditer(
            r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", README, re.MULTILINE | re.DOTALL
        )
    ]
    followers = [*found[1:], ("", "", len(README), len(README))]
    return [
        Block(language, text, after if kind == "text" and not README[end:start].strip() else None)
        for (language, text, _, end), (kind, after, start, _) in zip(found, followers, strict=True)
    ]


def run(program: str | Path, folder: Path) -> str:
    """Run a program in a folder, with warnings as errors, and return what it prints."""
    command = [str(program)] if isinstance(program, Path) else ["-c", program]
    done = subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Finished(NamedTuple):
    """An example that has run in a folder of its own."""

    output: str
    folder: Path


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Return a function that gives an example by its name, after running it once."""

    @cache
    def finished(name: str) -> Finished:
        folder = tmp_path_factory.mktemp(name)
        return Finished(run(ROOT / "examples" / f"{name}.py", folder), folder)

    return finished


# Code


def test_the_python_of_the_readme_prints_what_stands_below_it(tmp_path):
    """One program, from top to bottom, as a reader would paste it."""
    pytest.importorskip("torch")
    python = [block for block in blocks() if block.language == "python"]
    assert len(python) >= 2
    output = run(f"print({BOUNDARY!r})\n".join(block.text for block in python), tmp_path)
    for block, printed in zip(python, output.split(BOUNDARY + "\n"), strict=True):
        assert block.printed is not None, "a block of code without its output"
        assert printed == block.printed


def test_every_example_prints_something(example):
    assert EXAMPLES
    for path in EXAMPLES:
        assert example(path.stem).output.strip()


@pytest.mark.parametrize("name", ["network_logits", "random_forest"])
def test_what_an_example_calibrates_is_better_than_before(name, example):
    first, *others = map(float, re.findall(r"log-loss ([\d.]+)", example(name).output))
    assert others
    assert max(others) < first


def test_the_example_of_saving_predicts_the_same_after_loading(example):
    finished = example("saving_and_loading")
    assert "same predictions: True" in finished.output
    assert calibrant.load(finished.folder / "calibrator.npz").classes_.tolist() == [0, 1, 2]


# Facts


def test_the_readme_is_short():
    assert len(README.encode()) <= 8192


def test_the_readme_counts_the_metrics_of_the_registry():
    assert f"{len(registry.metrics())} calibration errors and scores" in README


def test_every_make_target_of_the_readme_exists():
    targets = set(
        re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    mentioned = set(re.findall(r"(?:^|`|data )make ([a-z-]+)", README + contributing, re.MULTILINE))
    assert {"demo", "test", "test-slow", "bench", "docs"} <= mentioned <= targets


def test_every_extra_of_the_readme_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    mentioned = set(re.findall(r"'calibrant\[([a-z]+)\]'", README))
    assert mentioned
    assert mentioned <= set(project["optional-dependencies"])
    oldest = project["requires-python"].removeprefix(">=")
    assert f"needs Python {oldest} or newer" in " ".join(README.split())


SITE = "https://calibrant.readthedocs.io/en/latest/"
BLOB = "https://github.com/calibrant/calibrant/blob/main/"
RAW = "https://raw.githubusercontent.com/calibrant/calibrant/main/"


def source_of(link: str) -> Path | None:
    """Return the file behind a link to the site or to the repository; None for the repository itself."""
    if link.startswith(SITE):
        page = link.removeprefix(SITE).removesuffix(".html")
        folder, _, name = page.partition("/")
        if folder in ("tutorials", "gallery"):  # made from scripts
            return ROOT / "examples" / folder / ("GALLERY_HEADER.rst" if name == "index" else f"{name}.py")
        return ROOT / "docs" / f"{page}.md"
    for start in (BLOB, RAW):
        if link.startswith(start):
            return ROOT / link.removeprefix(start)
    return None


def test_every_file_that_the_readme_links_exists():
    """Links are absolute, since the index of packages shows the README too."""
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 10
    for link in links:
        assert link == "https://github.com/calibrant/calibrant" or source_of(link).exists(), link
