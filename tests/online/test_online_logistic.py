"""Online Platt scaling and beta calibration: the steps, the regret, and streams that drift."""

import json
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from calibrant import BetaCalibration, PlattScaling, Predictions
from calibrant.errors import LabelError, ParameterError, PredictionError
from calibrant.online import OnlineBeta, OnlinePlatt
from calibrant.online.online_logistic import projection

BOTH = [OnlinePlatt, OnlineBeta]
both = pytest.mark.parametrize("cls", BOTH)


def features_of(cls, p):
    z = np.log(p) - np.log(1 - p)
    if cls is OnlinePlatt:
        return np.stack([z, np.ones(len(z))], axis=1)
    return np.stack([log_expit(z), -log_expit(-z), np.ones(len(z))], axis=1)


def naive(cls, p, y, step=0.1, radius=100.0, scale=None):
    """The algorithm as it is printed: dense inverses, and projection by a general minimiser."""
    X = features_of(cls, p)
    theta = np.array([1.0, 0.0] if cls is OnlinePlatt else [1.0, 1.0, 0.0])
    scale = (1.0 if cls is OnlinePlatt else 2.0) if scale is None else scale
    A = np.eye(len(theta)) / (step * scale) ** 2
    forecasts, path = [], []
    for x, outcome in zip(X, y, strict=True):
        path.append(theta)
        forecasts.append(expit(theta @ x))
        gradient = (forecasts[-1] - outcome) * x
        A = A + np.outer(gradient, gradient)
        theta = theta - np.linalg.inv(A) @ gradient / step
        if theta @ theta > radius**2:
            target, scaled = theta, A / np.trace(A)
            theta = minimize(
                lambda t, target=target, scaled=scaled: (t - target) @ scaled @ (t - target),
                target * radius / np.linalg.norm(target),
                jac=lambda t, target=target, scaled=scaled: 2 * scaled @ (t - target),
                constraints={"type": "ineq", "fun": lambda t: radius**2 - t @ t, "jac": lambda t: -2 * t},
                method="SLSQP",
                options={"ftol": 1e-15, "maxiter": 500},
            ).x
    return np.array(forecasts), np.array(path), theta, A


def stream(n_rows, seed=0, slope=0.5, shift=0.4):
    generator = np.random.default_rng(seed)
    z = generator.normal(0, 2, n_rows)
    return expit(z), generator.random(n_rows) < expit(slope * z + shift)


SEQUENCES = {
    "honest": stream(1500),
    "drifting": (
        stream(1500)[0],
        np.concatenate([stream(1500)[1][:700], ~stream(1500)[1][700:]]),
    ),
    "against the forecast": (stream(1500)[0], stream(1500)[0] < 0.5),
    "alternating": (np.full(1500, 0.9), np.arange(1500) % 2 == 0),
    "sure and wrong every tenth time": (np.tile([0.999, 0.001], 750), np.arange(1500) % 10 < 5),
}


@both
@pytest.mark.parametrize("name", SEQUENCES)
def test_steps_are_those_of_the_paper(cls, name):
    p, y = SEQUENCES[name]
    forecasts, _, theta, _ = naive(cls, p[:400], y[:400])
    online = cls()
    assert_allclose(online.update(p[:400], y[:400]), forecasts, rtol=1e-7, atol=1e-12)
    assert_allclose(online.parameters, theta, rtol=1e-6, atol=1e-9)
    assert online.n_rows == 400


@both
def test_parameters_stay_in_the_ball(cls):
    """Sure and wrong again and again, and in a small ball: nearly every step is projected."""
    p, y = np.tile([0.999, 0.002], 60), np.tile([False, True], 60)
    online = cls(radius=1.5)
    forecasts, _, theta, _ = naive(cls, p, y, radius=1.5)
    assert_allclose(online.update(p, y), forecasts, rtol=1e-3, atol=1e-5)
    assert np.linalg.norm(online.parameters) <= 1.5 * (1 + 1e-12)
    assert_allclose(online.parameters, theta, atol=1e-3)


@settings(max_examples=30)
@given(st.integers(2, 3), st.integers(0, 10**6), st.floats(1.01, 50))
def test_a_projection_is_the_nearest_point_of_the_ball(size, seed, excess):
    """At the minimum, A (x - nearest) points outwards along the point itself (Lagrange)."""
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(size, size))
    A = root @ root.T + 1e-3 * np.eye(size)
    point = generator.normal(size=size)
    point *= 2 * excess / np.linalg.norm(point)
    nearest = projection(point, A, 2.0)
    assert np.linalg.norm(nearest) == pytest.approx(2.0)
    pull = A @ (point - nearest)
    assert_allclose(pull, (pull @ nearest / 4) * nearest, rtol=1e-6, atol=1e-8 * np.abs(pull).max())
    assert pull @ nearest > 0


def log_losses(theta, X, y):
    scores = X @ theta
    return -np.where(y, log_expit(scores), log_expit(-scores))


@both
@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("step", [0.1, 0.01])
def test_the_regret_against_any_fixed_map_is_bounded(cls, name, step):
    """The inequality of the docstring, rows whose loss bends too little counted in, against the best map and others."""
    p, y = SEQUENCES[name]
    X = features_of(cls, p)
    _, path, _, A = naive(cls, p, y, step=step)
    online = cls(step=step)
    forecasts = online.update(p, y)
    paid = -np.log(np.where(y, forecasts, 1 - forecasts))
    scale = 1.0 if cls is OnlinePlatt else 2.0
    growth = np.linalg.slogdet(A)[1] - len(path[0]) * np.log((step * scale) ** -2)
    best = minimize(lambda theta: log_losses(theta, X, y).sum() + 1e-4 * theta @ theta, path[0]).x
    for theta in (best, path[0], np.zeros(len(best)), -best):
        if np.linalg.norm(theta) > 100:
            continue
        slopes = (forecasts - y) * np.einsum("ij,ij->i", X, path - theta)
        spared = paid - log_losses(theta, X, y)
        flat = np.maximum(spared - slopes + step / 2 * slopes**2, 0).sum()
        distance = np.sum((path[0] - theta) ** 2) / (2 * step * scale**2)
        assert spared.sum() <= growth / (2 * step) + distance + flat + 1e-6


@both
@pytest.mark.parametrize("name", SEQUENCES)
def test_the_mean_loss_comes_close_to_that_of_the_best_fixed_map(cls, name):
    """Regret that grows as a logarithm: within 0.12 nats a row after 1,500 rows, of whatever kind."""
    p, y = SEQUENCES[name]
    X = features_of(cls, p)
    forecasts = cls().update(p, y)
    paid = -np.log(np.where(y, forecasts, 1 - forecasts)).mean()
    best = minimize(
        lambda theta: log_losses(theta, X, y).mean() + 1e-9 * theta @ theta, np.zeros(X.shape[1])
    ).fun
    assert paid < best + 0.12


@both
def test_on_a_steady_stream_the_parameters_become_those_of_one_fit(cls):
    p, y = stream(40000)
    fitted = (PlattScaling() if cls is OnlinePlatt else BetaCalibration()).fit(p, y.astype(int))
    online = cls()
    online.update(p, y)
    assert_allclose(online.predict_proba(p), fitted.predict_proba(p), atol=0.02)


def test_forgetting_follows_a_break_that_memory_does_not():
    generator = np.random.default_rng(0)
    z = generator.normal(0, 2, 20000)
    true = np.where(np.arange(20000) < 15000, 2.0 * z, 0.3 * z)
    y = generator.random(20000) < expit(true)
    losses = {}
    for half_life in (None, 500):
        forecasts = OnlinePlatt(half_life=half_life).update(expit(z), y)[15000:]
        losses[half_life] = -np.log(np.where(y[15000:], forecasts, 1 - forecasts)).mean()
    best = -np.mean(np.where(y[15000:], log_expit(true[15000:]), log_expit(-true[15000:])))
    assert losses[500] < losses[None]
    assert losses[500] < best + 0.02


def test_a_half_life_fades_gradients_towards_the_first_matrix():
    """A = kept A + (1 - kept) A_0 + g g', in plain numpy."""
    p, y = stream(300)
    X, theta, A = features_of(OnlinePlatt, p), np.array([1.0, 0.0]), np.eye(2) * 100
    kept = 0.5 ** (1 / 50)
    for x, outcome in zip(X, y, strict=True):
        gradient = (expit(theta @ x) - outcome) * x
        A = kept * A + (1 - kept) * 100 * np.eye(2) + np.outer(gradient, gradient)
        theta = theta - 10 * np.linalg.solve(A, gradient)
    online = OnlinePlatt(half_life=50)
    online.update(p, y)
    assert_allclose(online.parameters, theta, rtol=1e-9)


# Protocol


@both
def test_rows_one_by_one_are_the_same_as_together(cls):
    p, y = stream(200)
    together, single = cls(), cls()
    forecasts = together.update(p, y)
    for row in range(200):
        assert single.predict_proba(p[row : row + 1])[0, 1] == pytest.approx(forecasts[row], rel=1e-12)
        single.learn_one(p[row], y[row])
    assert_array_equal(single.parameters, together.parameters)


@both
def test_a_state_goes_through_json_and_on(cls):
    p, y = stream(400)
    online = cls(step=0.2, half_life=300)
    online.update(p[:150], y[:150])
    twin = cls.from_state(json.loads(json.dumps(online.state())))
    assert_array_equal(twin.update(p[150:], y[150:]), online.update(p[150:], y[150:]))
    assert twin.state() == online.state()


def test_the_same_rows_as_columns_logits_and_named_classes():
    p, y = stream(300)
    wanted = OnlinePlatt().update(p, y)
    pairs = np.stack([1 - p, p], axis=1)
    assert_allclose(OnlinePlatt().update(pairs, y.astype(int)), wanted, rtol=1e-9)
    logits = Predictions.from_logits(np.log(p) - np.log(1 - p))
    assert_allclose(OnlinePlatt().update(logits, y), wanted, rtol=1e-9)
    named = Predictions.from_probabilities(pairs, classes=["no", "yes"])
    assert_allclose(OnlinePlatt().update(named, np.where(y, "yes", "no")), wanted, rtol=1e-9)


@both
def test_zeros_and_ones_that_are_refuted_give_finite_losses(cls):
    p, y = np.tile(np.array([0.0, 1.0, 0.0, 1.0], np.float32), 50), np.tile([1, 0, 0, 1], 50)
    online = cls()
    forecasts = online.update(p, y)
    assert np.isfinite(np.log(forecasts)).all()
    assert (online.predict_proba(p) > 0).all()


def test_the_identity_before_the_first_row():
    assert_allclose(OnlinePlatt().predict_proba([0.2, 0.7])[:, 1], [0.2, 0.7])
    assert_allclose(OnlineBeta().predict_proba([0.2, 0.7])[:, 1], [0.2, 0.7])


def test_a_hundred_thousand_rows_take_a_second_or_so():
    p, y = stream(100_000)
    start = process_time()
    OnlineBeta().update(p, y)
    assert process_time() - start < 5


@pytest.mark.parametrize(
    "options",
    [
        {"step": 0},
        {"radius": 0.5},
        {"scale": -1},
        {"half_life": 0},
        {"floor": 0},
        {"floor": 0.5},
        {"floor": 0.9},
        {"step": "a"},
    ],
    ids=str,
)
def test_options_without_meaning_are_refused(options):
    with pytest.raises(ParameterError):
        OnlinePlatt(**options)


def test_a_label_means_the_same_in_every_batch():
    """[1, 2, 1, 2] has two classes, of which 2 would be the second; [1, 1] alone would be the event."""
    online = OnlinePlatt()
    with pytest.raises(LabelError, match=r"0 or 1.*row 1 has 2.*classes="):
        online.update([0.5] * 4, [1, 2, 1, 2])
    with pytest.raises(LabelError, match="0 or 1"):
        online.update([0.5] * 2, ["no", "yes"])
    assert online.n_rows == 0
    pairs = np.full((4, 2), 0.5)
    for names, y in (([1, 2], [1, 1, 1, 1]), (["no", "yes"], ["no"] * 4)):
        named, wanted = OnlinePlatt(), OnlinePlatt()
        named.update(Predictions.from_probabilities(pairs, classes=names), y)
        wanted.update(pairs, [0, 0, 0, 0])
        assert_array_equal(named.parameters, wanted.parameters)
    with pytest.raises(LabelError, match=r"among the names of the forecasts, \[1, 2\]"):
        OnlinePlatt().update(Predictions.from_probabilities(pairs, classes=[1, 2]), [0, 1, 0, 1])
    for y in ([True, False], [1.0, 0.0], np.array([1, 0], np.uint8), np.array([True, False], object)):
        assert OnlinePlatt().update([0.5, 0.5], y).shape == (2,)


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(PredictionError, match="predicted class"):
        OnlinePlatt().update(np.full((4, 3), 1 / 3), [0, 1, 2, 0])
    with pytest.raises(LabelError, match="one per row"):
        OnlinePlatt().update([0.1, 0.2], [0, 1, 1])
    with pytest.raises(ParameterError, match="not a state"):
        OnlinePlatt.from_state(OnlineBeta().state())
