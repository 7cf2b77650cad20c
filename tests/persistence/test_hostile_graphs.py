"""Graphs in files that were made to do harm: load and load_graph refuse them in one sentence."""

import tracemalloc

import numpy as np
import pytest
from crafted_archives import assert_refused, edit_header, members_of, npy_of, write_members

from calibrant import TemperatureScaling, load, load_graph
from calibrant.errors import FileFormatError


def assert_graph_refused(path, reason):
    """Fail unless both readers refuse the file."""
    assert_refused(path, reason)
    with pytest.raises(FileFormatError, match=reason) as caught:
        load_graph(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "operation",
    [
        {"operation": "ramps", "of": [0], "knots": 0.5, "slopes": 0.5},
        {"operation": "constant", "of": [0], "numbers": 0.5},
        {"operation": "mixture", "of": [0], "weights": 1},
        {"operation": "dense", "of": [0], "weights": 0.5, "intercept": 0.5},
    ],
)
def test_a_number_in_the_place_of_an_array(operation, path):
    edit_header(path, lambda header: header["graph"]["operations"].append(operation))
    assert_graph_refused(path, r"is damaged: operation 5 of the graph: \w+ of \w+ must have \d axes, not 0")


@pytest.mark.parametrize("probe", [5, {}, [], None, {"inputs": 5, "outputs": None}])
def test_a_probe_that_is_none(probe, path):
    edit_header(path, lambda header: header.update(probe=probe))
    with pytest.raises(FileFormatError, match="the probe must"):
        load_graph(path)


def test_operations_that_share_an_array_would_multiply_it(tmp_path):
    """200 products with one matrix of 0.5 MB would take 100 MB as 200 arrays."""
    path = tmp_path / "calibrator.npz"
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet(np.ones(250), 500)
    TemperatureScaling().fit(probabilities, np.arange(500) % 250).save(path)
    members = members_of(path)
    number = len(members) - 1
    members[f"array_{number}.npy"] = npy_of(np.eye(250))
    write_members(path, members)
    dense = {"operation": "dense", "weights": {"array": number}, "intercept": {"array": number}}

    def share(header):
        header["graph"]["operations"] += [dense | {"of": [4 + place]} for place in range(200)]

    edit_header(path, share)
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match="is referred to twice"):
            load_graph(path)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()
    assert_refused(path, "some arrays are referred to twice or never")


def test_an_integer_is_a_number_too(path):
    """JSON of other languages writes 1 for 1.0."""

    def edit(header):
        operation = header["graph"]["operations"][1]
        assert operation["operation"] == "affine"
        operation["shift"] = 0

    before = load(path).predict_proba([[0.9, 0.1]])
    edit_header(path, edit)
    np.testing.assert_array_equal(load_graph(path)(np.array([[0.9, 0.1]])), before)
