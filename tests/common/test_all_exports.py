"""Every method that has a graph, in ONNX Runtime and torch: the probabilities and predicted classes of predict_proba."""

import numpy as np
import pytest
from methods import NAMES, fitted, n_classes_of, problem, settled, traits
from test_all_graphs import WITH_GRAPH, WITHOUT_GRAPH, as_predictions, hard_rows

from calibrant import OneVsRest, PlattScaling, Predictions
from calibrant.errors import MissingClassWarning, NoGraphError
from calibrant.export import exportable, to_torch
from calibrant.export.backend import backend_for
from calibrant.export.formulas import FORMULAS
from calibrant.graph import OPERATIONS

TOLERANCES = {"float32": 1e-6, "float64": 1e-12}

# Unpenalised weights and steep lines: in float32 predict_proba itself is off by more than 1e-6, up to 4e-4 for 100 classes.
# One rounding step of another softmax, times the same slopes, may be a few times as much.
ILL_CONDITIONED = {"dirichlet", "dirichlet-odir", "irm", "matrix"}

# For a hundred classes, sums of as many products: in float32 predict_proba itself is off by up to 4e-6.
LONG_SUMS = {"dirichlet-l2", "matrix-odir"}

FORMS = ("onnx", "torch module", "torch program")


def skip_unless_installed(form):
    needed = "onnxruntime" if form == "onnx" else "torch"
    pytest.importorskip(
        needed, reason=f"{needed} is not installed: pip install 'calibrant[{form.split()[0]}]'"
    )


def through(form, calibrator, space, scores, folder):
    """Return what an export makes of scores, in their float type."""
    if form == "torch module":
        import torch

        return to_torch(calibrator, space)(torch.from_numpy(scores)).numpy()
    path = folder / ("calibrator.onnx" if form == "onnx" else "calibrator.pt2")
    backend = backend_for(path)
    backend.write(exportable(calibrator, dtype=scores.dtype, space=space), path, {})
    return backend.run(path, scores)


def rows(n_classes, space):
    """Ordinary rows, exact zeros and ones, ties, rows that differ in their last digit, saturated logits."""
    if space == "probabilities":
        return np.vstack([problem(n_classes, seed=1).probabilities[:40], hard_rows(n_classes)])
    ordinary = np.random.default_rng(n_classes).normal(0, 3, (40, n_classes))
    hard = np.zeros((6, n_classes))
    # No row is uniform: 1/K may lie on the edge of a bin, where the last bit of an exponential decides.
    hard[0, 0], hard[1, -1], hard[2, 0], hard[3, 1], hard[4, :2], hard[5, :2] = (
        800.0,
        -1e5,
        1e9,
        -740.0,
        30.0,
        0.7,
    )
    return np.vstack([ordinary, hard])


def taking(name, n_classes, space):
    """Return a fitted calibrator that takes scores of a space."""
    if space == "logits" and traits(name).uses_raw_logits:
        given = problem(n_classes)
        return settled(name).fit(Predictions.from_logits(np.log(given.probabilities)), given.labels)
    return fitted(name, n_classes)


def assert_equal(form, calibrator, space, scores, folder, tolerance):
    found = through(form, calibrator, space, scores, folder)
    expected = calibrator.predict_proba(as_predictions(scores, space))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    # The log-loss of a zero may be infinite.
    assert (found[expected >= np.finfo(expected.dtype).tiny] > 0).all()
    # Where the two largest probabilities differ by their last digits, a method that promises nothing may name either.
    second, largest = np.sort(expected.astype(np.float64), axis=1)[:, -2:].T
    clear = largest - second > 8 * np.finfo(expected.dtype).eps
    if calibrator.traits.keeps_argmax:
        clear[:] = True
    np.testing.assert_array_equal(found.argmax(axis=1)[clear], expected.argmax(axis=1)[clear])


def check(form, name, space, kind, n_classes, folder):
    if traits(name).binary_only and n_classes > 2:
        pytest.skip("for two classes")
    scores = rows(n_classes, space).astype(kind)
    calibrator = taking(name, n_classes, space)
    tolerance = TOLERANCES[kind]
    if kind == "float32" and (name in ILL_CONDITIONED or (name in LONG_SUMS and n_classes >= 100)):
        graph = calibrator.graph(space)
        own = np.abs(graph(scores) - graph(scores.astype(np.float64))).max()
        tolerance = max(tolerance, 4 * own)
    assert_equal(form, calibrator, space, scores, folder, tolerance)


every_exported = pytest.mark.parametrize("name", WITH_GRAPH)


@pytest.mark.parametrize("form", ["onnx", "torch module"])
@every_exported
def test_an_export_equals_the_method(name, form, tmp_path):
    """Float64 on what the method was fitted on, float32 on logits where it takes them."""
    skip_unless_installed(form)
    n_classes = n_classes_of(name)
    check(form, name, "probabilities", "float64", n_classes, tmp_path)
    if not traits(name).uses_raw_logits:
        check(form, name, "logits", "float32", n_classes, tmp_path)


@pytest.mark.parametrize(
    "name", ["top-label-binning", "iop", "auto", "spline-paper", "forest", "pts", "beta"]
)
def test_a_program_of_torch_equals_the_method(name, tmp_path):
    """These have all operations; programs with operators that are not on the list of allowed ones are refused."""
    skip_unless_installed("torch program")
    check("torch program", name, "probabilities", "float32", 3, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("space", ["probabilities", "logits"])
@pytest.mark.parametrize("form", ["onnx", "torch module"])
@every_exported
@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")
def test_every_export_equals_the_method(name, form, space, kind, n_classes, tmp_path):
    skip_unless_installed(form)
    check(form, name, space, kind, n_classes, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("space", ["probabilities", "logits"])
@every_exported
def test_every_program_of_torch_equals_the_method(name, space, tmp_path):
    skip_unless_installed("torch program")
    for kind in TOLERANCES:
        check("torch program", name, space, kind, n_classes_of(name), tmp_path)


def absent(name):
    given = problem(4)
    labels = np.where(given.labels == 1, 2, given.labels)
    with pytest.warns(MissingClassWarning):
        return settled(name).fit(given.probabilities, labels)


@pytest.mark.parametrize("form", ["onnx", "torch module"])
@pytest.mark.parametrize("name", ["vector", "isotonic", "auto", "top-label-binning"])
def test_an_export_with_an_absent_class(name, form, tmp_path):
    skip_unless_installed(form)
    for kind, tolerance in TOLERANCES.items():
        scores = rows(4, "probabilities").astype(kind)
        assert_equal(form, absent(name), "probabilities", scores, tmp_path, tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")
@every_exported
def test_every_export_with_an_absent_class(name, form, tmp_path):
    skip_unless_installed(form)
    if traits(name).binary_only:
        pytest.skip("for two classes")
    calibrator = absent(name)
    for space in ("probabilities", "logits"):
        if space == "logits" and traits(name).uses_raw_logits:
            continue
        for kind, tolerance in TOLERANCES.items():
            assert_equal(form, calibrator, space, rows(4, space).astype(kind), tmp_path, tolerance)


@pytest.mark.parametrize("form", ["onnx", "torch module"])
@pytest.mark.parametrize("normalisation", ["shift", "project"])
def test_an_export_with_another_normalisation(normalisation, form, tmp_path):
    skip_unless_installed(form)
    calibrator = OneVsRest(PlattScaling(), normalisation=normalisation).fit(*problem(10))
    for kind, tolerance in TOLERANCES.items():
        scores = rows(10, "probabilities").astype(kind)
        assert_equal(form, calibrator, "probabilities", scores, tmp_path, tolerance)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_rows", [0, 1, 3])
def test_any_number_of_rows(n_rows, form, tmp_path):
    skip_unless_installed(form)
    scores = rows(3, "probabilities")[:n_rows]
    assert through(form, fitted("isotonic", 3), "probabilities", scores, tmp_path).shape == (n_rows, 3)


@pytest.mark.parametrize("name", sorted(WITHOUT_GRAPH))
@pytest.mark.parametrize("ending", ["onnx", "pt2"])
def test_a_method_without_a_graph_refuses(name, ending, tmp_path):
    calibrator = settled(name).fit(*problem(3))
    calibrator.identity_kept_ = False
    with pytest.raises(NoGraphError, match=r"has no graph, because .* temperature scaling"):
        calibrator.export(tmp_path / f"calibrator.{ending}")
    assert list(tmp_path.iterdir()) == []


def test_there_is_a_formula_for_every_operation():
    assert set(FORMULAS) >= set(OPERATIONS) - {"opaque"}


def test_every_method_is_exported_or_has_no_graph():
    assert set(WITH_GRAPH) | WITHOUT_GRAPH == set(NAMES)
