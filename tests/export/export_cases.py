"""Calibrators, rows and expected probabilities for the tests of exports."""

import json
import shutil
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

from methods import fitted, problem, settled, traits
from test_all_graphs import WITH_GRAPH, rows_for

from calibrant import Predictions
from calibrant.errors import MissingClassWarning
from calibrant.export import Exportable, exportable
from calibrant.export.json_file import interpreter_source, json_of

TOLERANCES = {"float32": 1e-6, "float64": 1e-12}

# Where the two largest probabilities of a row are this near, the last bit of an exponential decides.
LAST_BITS = {"float32": 2.0**-22, "float64": 2.0**-51}

SPACES = ("probabilities", "logits")
FLOATS = ("float32", "float64")


class Case(NamedTuple):
    """A calibrator, rows, and what it predicts for them."""

    name: str
    exportable: Exportable
    rows: np.ndarray
    expected: np.ndarray
    in_float64: np.ndarray
    on_edge: np.ndarray

    def __str__(self):
        return f"{self.name}, {self.exportable.graph.space.value}, {self.exportable.dtype}"


def cases(n_classes, names=WITH_GRAPH, absent=False, floats=FLOATS):
    """Return all combinations of method, space and float type; hard rows are among the rows."""
    found = []
    for name in names:
        if traits(name).binary_only and n_classes > 2:
            continue
        for space in SPACES:
            calibrator = _fitted(name, n_classes, space if traits(name).uses_raw_logits else None, absent)
            for kind in floats:
                rows = rows_for(calibrator, n_classes, space).astype(kind)
                given = [_predictions(part, space) for part in (rows, rows.astype(np.float64))]
                expected, in_float64 = (calibrator.predict_proba(part) for part in given)
                content = exportable(calibrator, dtype=kind, space=space)
                on_edge = _on_edge(calibrator, rows, space, expected)
                found.append(Case(name, content, rows, expected, in_float64, on_edge))
    return found


def _on_edge(calibrator, rows, space, expected):
    """Return rows on the edge of a step: scores that differ in their last bits have other predictions.

    The edges of bins may be softmax probabilities of such rows, and no two exponentials agree in all bits.
    """
    generator = np.random.default_rng(0)
    on_edge = np.zeros(len(rows), bool)
    for _ in range(8):
        step = generator.choice([-4, 0, 4], rows.shape) * np.finfo(rows.dtype).eps
        nudged = (rows * (1 + step)).astype(rows.dtype)
        change = np.abs(calibrator.predict_proba(_predictions(nudged, space)) - expected).max(axis=1)
        on_edge |= change > 100 * TOLERANCES[rows.dtype.name]
    return on_edge


def _predictions(rows, space):
    # Hard rows of two classes may look like probabilities.
    return Predictions.from_logits(rows, allow_probabilities=True) if space == "logits" else rows


@cache
def _fitted(name, n_classes, raw_space, absent):
    rows = problem(n_classes)
    if not absent and raw_space != "logits":
        return fitted(name, n_classes)
    given = (
        _predictions(np.log(rows.probabilities), "logits") if raw_space == "logits" else rows.probabilities
    )
    labels = np.where(rows.labels == 1, 0, rows.labels) if absent else rows.labels
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)
        return settled(name).fit(given, labels)


def assert_same(case, found):
    """Fail unless probabilities agree to the tolerance of their type, and arg-max does where it is no tie of rounding."""
    kind = case.exportable.dtype.name
    # In float32, sums of many products depend on their order: as far as float32 is from float64, two results may be apart.
    allowed = max(
        TOLERANCES[kind], 2 * np.abs(case.expected - case.in_float64).max() if kind == "float32" else 0
    )
    # Without rounding before the first step, edges are exact.
    inner = ~case.on_edge if case.exportable.graph.space.value == "logits" else slice(None)
    np.testing.assert_allclose(found[inner], case.expected[inner], rtol=0, atol=allowed, err_msg=str(case))
    largest = np.sort(case.expected, axis=1)[:, -2:]
    is_clear = largest[:, 1] - largest[:, 0] > LAST_BITS[kind]
    is_clear |= traits(case.name).keeps_argmax
    is_clear[case.on_edge] = False
    same = found.argmax(axis=1) == case.expected.argmax(axis=1)
    assert same[is_clear].all(), f"{case}: another arg-max in rows {np.flatnonzero(is_clear & ~same)}"


def ordinary_floats(dtype):
    """Return floats of all sizes, denormal ones included, and neighbours of powers of two."""
    integer = {4: np.uint32, 8: np.uint64}[dtype.itemsize]
    x = np.random.default_rng(0).integers(0, np.iinfo(integer).max, 200_000, dtype=integer).view(dtype)
    powers = np.ldexp(dtype.type(1), np.arange(-126, 127)).astype(dtype)
    near = np.concatenate([powers, np.nextafter(powers, dtype.type(0)), np.nextafter(powers, dtype.type(9))])
    special = [0.0, np.finfo(dtype).smallest_subnormal]
    x = np.concatenate([x[np.isfinite(x)], near, -near, special]).astype(dtype)
    return x[x != np.finfo(dtype).max]


def needs_node():
    """Return the path of Node, or skip."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed; on Debian: apt-get install nodejs")
    return node


RUNNER = """
const { run } = require(process.argv[2]);
const lines = require("fs").readFileSync(0, "utf8").split("\\n").filter(Boolean);
const attempt = (line) => {
  const { json, rows } = JSON.parse(line);
  try { return run(json, rows); } catch (error) { return `${error.name}: ${error.message}`; }
};
for (const line of lines) console.log(JSON.stringify(attempt(line)));
"""


def in_node(pairs, folder):
    """Return what the interpreter makes of pairs of JSON content and rows, all in one process of Node."""
    node = needs_node()
    interpreter, runner = folder / "interpreter.js", folder / "runner.js"
    interpreter.write_text(interpreter_source(), encoding="utf-8")
    runner.write_text(RUNNER, encoding="utf-8")
    lines = "".join(json.dumps({"json": content, "rows": rows}) + "\n" for content, rows in pairs)
    ended = subprocess.run(
        [node, "--max-old-space-size=4096", str(runner), str(interpreter)],
        input=lines, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in ended.stdout.splitlines()]


def node_pairs(some):
    return [(json_of(case.exportable), case.rows.tolist()) for case in some]
