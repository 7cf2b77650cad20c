"""Torch modules of fitted calibrators: derivatives, float types, networks before them; and primitives of both back ends."""

import io
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from export_cases import ordinary_floats

from calibrant import (
    BetaCalibration,
    IntraOrderPreserving,
    OneVsRest,
    PlattScaling,
    Predictions,
    TemperatureScaling,
)
from calibrant.errors import ParameterError, PredictionError
from calibrant.export.formulas import FORMULAS
from calibrant.graph.trees import TreeMeans
from calibrant.numerics.row_order import restore_order

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'calibrant[torch]'")

from calibrant.export.torch.program import TensorArrays  # noqa: E402


def problem(n_classes=3, n_rows=400):
    generator = np.random.default_rng(n_classes)
    logits = generator.normal(0, 3, (n_rows, n_classes))
    return logits, (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def temperature():
    logits, y = problem()
    return TemperatureScaling().fit(Predictions.from_logits(logits), y)


def test_a_network_with_a_calibrator_behind_it(temperature):
    network = torch.nn.Linear(5, 3)
    calibrated = torch.nn.Sequential(network, temperature.to_torch())
    x = torch.randn(7, 5)
    logits = network(x).detach().numpy()
    expected = temperature.predict_proba(Predictions.from_logits(logits))
    np.testing.assert_allclose(calibrated(x).detach().numpy(), expected, atol=1e-6)


@pytest.mark.parametrize(
    "method",
    [
        TemperatureScaling(),
        OneVsRest(BetaCalibration()),
        OneVsRest(PlattScaling(), normalisation="shift"),
        IntraOrderPreserving(kind="diagonal", random_state=0),
    ],
    ids=["temperature", "beta", "platt-shift", "iop-diagonal"],
)
def test_the_derivative_is_that_of_the_map(method):
    logits, y = problem()
    module = method.fit(Predictions.from_logits(logits), y).to_torch("logits")
    rows = torch.from_numpy(logits[:4].copy()).requires_grad_()
    assert torch.autograd.gradcheck(module, (rows,), eps=1e-6, atol=1e-5)


def test_a_derivative_of_zeros_is_finite():
    logits, y = problem()
    module = TemperatureScaling().fit(Predictions.from_logits(logits), y).to_torch("probabilities")
    rows = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], requires_grad=True)
    module(rows)[:, 0].sum().backward()
    assert torch.isfinite(rows.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_results_have_the_type_of_the_input_and_buffers_stay_float64(dtype, temperature):
    module = temperature.to_torch().to(dtype)
    assert module(torch.zeros(2, 3, dtype=dtype)).dtype == dtype
    assert {buffer.dtype for buffer in module.buffers() if buffer.is_floating_point()} == {torch.float64}


def test_the_module_moves_and_its_state_can_be_loaded(temperature):
    module = temperature.to_torch()
    assert all(buffer.device.type == "meta" for buffer in temperature.to_torch().to("meta").buffers())
    other = temperature.to_torch()
    other.load_state_dict(module.state_dict())
    assert not list(module.parameters())


def test_scores_of_another_shape_are_refused(temperature):
    with pytest.raises(PredictionError, match=r"shape \(n, 3\), not \(2, 4\)"):
        temperature.to_torch()(torch.zeros(2, 4))
    with pytest.raises(
        PredictionError, match=r"not \(2, 3, 4, 4\); for more axes pass to_torch\(class_axis="
    ):
        temperature.to_torch()(torch.zeros(2, 3, 4, 4))
    with pytest.raises(PredictionError, match=r"must have an axis 2 .* but have shape \(2, 3\)"):
        temperature.to_torch(class_axis=2)(torch.zeros(2, 3))
    with pytest.raises(ParameterError, match=r"class_axis must be an integer, such as 1 or -1, not 1\.5"):
        temperature.to_torch(class_axis=1.5)
    with pytest.raises(PredictionError, match="must be floats"):
        temperature.to_torch()(torch.zeros(2, 3, dtype=torch.int64))


@pytest.mark.parametrize("class_axis", [0, 1, -1])
def test_scores_with_more_axes(class_axis, temperature):
    scores = np.random.default_rng(1).normal(0, 3, (4, 5, 6, 3)).astype(np.float32)
    given = np.moveaxis(scores, -1, class_axis)
    found = temperature.to_torch(class_axis=class_axis)(torch.from_numpy(given))
    expected = temperature.predict_proba(Predictions.from_logits(given, class_axis=class_axis))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("space", ["probabilities", "logits"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_one_score_for_two_classes(space, dtype):
    """As of a network with one output: the score of the second class."""
    logits, y = problem(2)
    log_odds = torch.from_numpy(logits[:, 1] - logits[:, 0]).to(dtype)
    module = BetaCalibration().fit(Predictions.from_logits(logits), y).to_torch(space)
    if space == "logits":
        pairs = torch.stack([torch.zeros_like(log_odds), log_odds], dim=1)
    else:
        log_odds = torch.sigmoid(log_odds)
        pairs = torch.stack([1 - log_odds.double(), log_odds.double()], dim=1)
    expected = module(pairs.to(torch.float32 if dtype == torch.float16 else dtype)).to(dtype)
    for scores in (log_odds, log_odds[:, None]):
        assert torch.equal(module(scores), expected)


def test_a_used_module_can_be_pickled_and_saved_with_its_network(temperature):
    network = torch.nn.Sequential(torch.nn.Linear(5, 3), temperature.to_torch())
    expected = network(torch.ones(2, 5))
    stream = io.BytesIO()
    torch.save(network, stream)
    stream.seek(0)
    for other in (pickle.loads(pickle.dumps(network)), torch.load(stream, weights_only=False)):
        assert torch.equal(other(torch.ones(2, 5)), expected)


# Primitives


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_the_next_larger_number(kind):
    """Of numbers of all sizes, denormal ones included, and of neighbours of powers of two."""
    x = ordinary_floats(np.dtype(kind))
    with np.errstate(over="ignore"):
        expected = np.nextafter(x, x.dtype.type(np.inf))
    np.testing.assert_array_equal(tensors(kind).next_up(torch.from_numpy(x)).numpy(), expected)


def tensors(kind):
    def stored(name, array):
        return torch.from_numpy(np.array(array))

    return TensorArrays(np.dtype(kind), stored)


def ladder_rows(kind):
    """Rows that are out of order by rounding, of either sign, with ties, next to zero and to powers of two."""
    generator = np.random.default_rng(0)
    reference = generator.integers(0, 5, (200, 8)).astype(kind)
    level = generator.choice([0.0, 1.0, -1.0, 0.1, -3e-5, 2.0**-130], (200, 1)).astype(kind)
    steps = generator.integers(-2, 3, (200, 8))
    values = level + steps * np.spacing(level)
    return np.where(values == 0, 0, values).astype(kind), reference


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_the_order_is_restored_as_numpy_does(kind):
    values, reference = ladder_rows(kind)
    expected = values.copy()
    restore_order(expected, reference)
    found = FORMULAS["restore"](
        tensors(kind), SimpleNamespace(kept="order"), torch.from_numpy(values), torch.from_numpy(reference)
    )
    np.testing.assert_array_equal(found.numpy(), expected)


def plain_tree_means(operation, x):
    """One row and one tree at a time."""
    result = np.zeros((len(x), operation.values.shape[1]))
    for row, total in zip(x, result, strict=True):
        first = 0
        for tree, n_splits in enumerate(operation.n_splits):
            place = 0 if n_splits else ~0
            while place >= 0:
                split = first + place
                is_left = row[operation.columns[split]] < operation.thresholds[split]
                place = operation.children[split][0 if is_left else 1]
            total += operation.values[first + tree + ~place]
            first += n_splits
        total /= len(operation.n_splits)
    return result


def test_means_over_trees():
    """Trees of 2, 0 and 3 splits."""
    operation = TreeMeans(
        n_splits=np.array([2, 0, 3]),
        columns=np.array([0, 1, 2, 0, 1]),
        thresholds=np.array([0.5, 0.2, 0.1, 0.3, 0.6]),
        children=np.array([[1, ~0], [~1, ~2], [1, 2], [~0, ~1], [~2, ~3]]),
        values=np.random.default_rng(0).random((8, 3)),
    )
    x = np.vstack([np.random.default_rng(1).random((50, 3)), [[0.5, 0.2, 0.1]]])
    found = FORMULAS["tree-means"](tensors("float64"), operation, torch.from_numpy(x))
    np.testing.assert_allclose(found.numpy(), plain_tree_means(operation, x), atol=1e-15)
