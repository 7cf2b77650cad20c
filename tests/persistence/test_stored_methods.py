"""Files of every schema predict what they predicted when they were written."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from stored_methods import as_predictions, rows_of

from calibrant import load, load_graph, registry
from calibrant.errors import FileFormatError
from calibrant.graph import OPERATIONS

ARCHIVES = {version: Path(__file__).parent / f"schema_{version}" / "methods.zip" for version in (1, 2)}

# Probabilities may be off by so much: a rounding error or two of sums in another order.
TOLERANCES = {"float64": 1e-12, "float32": 2e-7}


def stored(archive):
    """Return the parts of every example: the file, and the predictions by space and float type."""
    parts = {}
    with zipfile.ZipFile(archive) as opened:
        for member in opened.namelist():
            example, _, part = member.partition("/")
            parts.setdefault(example, {})[part] = opened.read(member)
    return parts


EXAMPLES = {
    (version, example): parts
    for version, archive in ARCHIVES.items()
    for example, parts in sorted(stored(archive).items())
}


def names_of(version):
    return {example.partition(",")[0] for own, example in EXAMPLES if own == version}


def test_there_is_an_example_of_every_name():
    assert names_of(1) | names_of(2) <= set(registry.calibrators())
    assert len(names_of(1)) == 52  # as many as there were


def test_the_graphs_have_every_operation():
    """All but ``opaque``, which no file holds, and ``first-of-least``, of hard decision maps."""
    found = set()

    def look(graph):
        for node in graph["operations"]:
            found.add(node["operation"])
            for branch in node.get("branches", ()):
                look(branch)

    for (version, _), parts in EXAMPLES.items():
        if version == 2:
            with zipfile.ZipFile(io.BytesIO(parts["calibrator.npz"])) as archive:
                look(json.loads(archive.read("header.json"))["graph"] or {"operations": []})
    assert found == set(OPERATIONS) - {"opaque", "first-of-least"}


@pytest.mark.parametrize(("version", "example"), EXAMPLES)
def test_an_old_file_predicts_as_it_did(version, example, tmp_path):
    """Also by its graph alone, which files have from schema 2 on."""
    parts = dict(EXAMPLES[version, example])
    path = tmp_path / "calibrator.npz"
    path.write_bytes(parts.pop("calibrator.npz"))
    loaded = load(path)
    try:
        graph = load_graph(path)
    except FileFormatError:
        assert version == 1 or example.startswith(("knn-", "kernel-"))
        graph = None
    for part, content in parts.items():
        space, _, kind = part.removesuffix(".npy").partition("-")
        expected = np.load(io.BytesIO(content))
        given = as_predictions(rows_of(expected.shape[1], space, kind), space)
        predicted = loaded.predict_proba(given)
        assert predicted.dtype == expected.dtype
        np.testing.assert_allclose(predicted, expected, rtol=0, atol=TOLERANCES[kind], err_msg=part)
        if graph is not None and graph.space == space:
            np.testing.assert_allclose(
                graph(given.scores), expected, rtol=0, atol=TOLERANCES[kind], err_msg=part
            )
