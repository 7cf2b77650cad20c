"""Files of predictions for the tests of the command line: overconfident ones of three animals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Without the libraries of the command line there is nothing to test.
pytest.importorskip("rich")
testing = pytest.importorskip("click.testing")

CLASSES = ["cat", "dog", "owl"]

COLUMNS = "--label animal --space probabilities --columns p_*"


def probabilities(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return overconfident probabilities, (n, 3), and column numbers of true classes, all of which occur."""
    generator = np.random.default_rng(seed)
    logits = 2 * generator.normal(size=(n_rows, 3))
    labels = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    labels[:3] = range(3)
    p = np.exp(logits)
    return p / p.sum(axis=1, keepdims=True), labels


def csv_text(n_rows: int, seed: int) -> str:
    """Return the rows as a CSV file with columns of other kinds."""
    p, labels = probabilities(n_rows, seed)
    lines = ["id,animal,p_cat,p_dog,p_owl,note,w,who"]
    for number, (values, label) in enumerate(zip(p.tolist(), labels, strict=True)):
        scores = ",".join(map(repr, values))
        note = "" if number % 2 else '"a, ""b"""'
        lines.append(f"{number:03d},{CLASSES[label]},{scores},{note},{1 + number % 3},{number // 4}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A working folder with val.csv of 120 rows and test.csv of 90, in three classes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "val.csv").write_text(csv_text(120, 0), encoding="utf-8")
    (tmp_path / "test.csv").write_text(csv_text(90, 1), encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(folder) -> Callable[..., Any]:
    """Run a command line, given as text, in the folder."""
    from calibrant.cli.program import calibrant

    def run(line: str, expected: int = 0) -> Any:
        result = testing.CliRunner().invoke(calibrant, line.split(), prog_name="calibrant")
        assert result.exit_code == expected, f"{result.exit_code}: {result.output}"
        return result

    return run
