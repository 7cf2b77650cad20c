"""A graph as plain data is refused in one sentence, or it runs, whatever its parameters are."""

import copy
import warnings

import numpy as np
import pytest
from every_operation import GRAPHS
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from calibrant.graph import OPERATIONS, GraphError
from calibrant.graph.plain import graph_from_plain, graph_to_plain

shapes = stn.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
floats = st.one_of(st.floats(), st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e300, -1e300, 1e-320]))
integers = st.one_of(st.integers(-3, 5), st.integers(-(2**63), 2**63 - 1))
arrays = st.one_of(
    stn.arrays(np.float64, shapes, elements=floats),
    stn.arrays(np.float32, shapes, elements=st.floats(width=32)),
    stn.arrays(np.int64, shapes, elements=integers),
    stn.arrays(np.bool_, shapes),
    st.just(np.array(["a"])),
)
words = st.sampled_from(["max", "exp", "left", "order", "divide", "logits", "affine", "", "a" * 99])
anything = st.one_of(
    st.none(), st.booleans(), integers, floats, words, arrays, st.lists(st.integers(-1, 3)), st.just({}),
    st.just([GRAPHS["softmax"]]),
)  # fmt: skip


def reshaped(array, how):
    """Return an array of another shape or of other numbers."""
    ways = {
        "no axes": lambda: array.reshape(-1)[:1].reshape(()) if array.size else array,
        "one axis more": lambda: array[..., np.newaxis],
        "shorter": lambda: array[:-1],
        "longer": lambda: np.concatenate([array, array[-1:]]),
        "empty": lambda: array[:0],
        "negative": lambda: -array,
        "huge": lambda: array * 10**9,
        "reversed": lambda: array[::-1],
        "flat": array.ravel,
    }
    return ways[how]() if np.ndim(array) or how in ("one axis more", "negative", "huge") else array


WAYS = ["no axes", "one axis more", "shorter", "longer", "empty", "negative", "huge", "reversed", "flat"]


@st.composite
def mutated(draw):
    """Return a sound graph with one or two things changed."""
    content = copy.deepcopy(GRAPHS[draw(st.sampled_from(sorted(GRAPHS)))])
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.sampled_from([content, *content["operations"] * 4]))
        key = draw(st.sampled_from(sorted(place)))
        if isinstance(place[key], np.ndarray) and place[key].dtype.kind in "if" and draw(st.booleans()):
            place[key] = reshaped(place[key], draw(st.sampled_from(WAYS)))
        elif key != "operations":
            place[key] = draw(anything)
    return content


def check_that_it_runs(graph):
    """Predict rows of both types, in general position and extreme, in one row, few and many, and none."""
    rows = np.vstack(
        [np.random.default_rng(0).dirichlet(np.ones(graph.n_columns), 40), np.eye(graph.n_columns)]
    )
    for kind in (np.float32, np.float64):
        for n_rows in (0, 1, len(rows)):
            for scale in (1, 1e12):
                result = graph(scale * rows[:n_rows].astype(kind))
                assert result.shape == (n_rows, graph.n_outputs)


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - {"opaque"}))
def test_every_operation_runs_as_plain_data(name):
    graph = graph_from_plain(GRAPHS[name], lambda array: array)
    check_that_it_runs(graph)
    assert str(graph_from_plain(graph_to_plain(graph, lambda array: array), lambda array: array)) == str(
        graph
    )


@settings(max_examples=400)
@given(content=mutated())
def test_a_changed_graph_is_refused_in_one_sentence_or_runs(content):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph, complaint = None, "refused"
        try:
            graph = graph_from_plain(content, lambda array: array)
        except GraphError as error:
            complaint = str(error)
        assert complaint
        assert "\n" not in complaint
        if graph is not None and graph.n_columns < 100 and graph.n_outputs < 100:
            check_that_it_runs(graph)
