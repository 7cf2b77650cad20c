"""Calibeating: frequencies that track, coins that hedge, and what both guarantee."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from calibrant.errors import LabelError, ParameterError
from calibrant.online import Calibeating, OnlineBeta, OnlinePlatt
from calibrant.online.calibeating import FosterForecaster

WIDTH = 0.1


def sequences(n_rows=3000, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.random(n_rows)
    time = np.arange(n_rows)
    yield p, generator.random(n_rows) < p**3
    yield p, generator.random(n_rows) < np.where(time < n_rows // 2, p, 1 - p)
    yield p, p < 0.5
    yield p, (time // 7) % 2 == 0
    yield np.full(n_rows, 0.55), np.sin(time / 100) > 0


def bins_of(forecasts):
    return np.minimum((forecasts / WIDTH).astype(int), 9)


def naive_tracking(forecasts, y, smoothing):
    told = []
    for row, forecast in enumerate(forecasts):
        alike = bins_of(forecasts[:row]) == bins_of(np.array([forecast]))[0]
        count = alike.sum() + smoothing
        told.append((y[:row][alike].sum() + smoothing * forecast) / count if count else forecast)
    return np.array(told)


@pytest.mark.parametrize("smoothing", [0.0, 0.5, 1.0])
def test_tracking_is_the_mean_of_earlier_outcomes_in_the_bin(smoothing):
    for p, y in sequences(200):
        told = Calibeating(None, smoothing=smoothing).update(p, y)
        assert_allclose(told, naive_tracking(p, y, smoothing), rtol=1e-12)
        online = OnlinePlatt().update(p, y)
        told = Calibeating(OnlinePlatt(), smoothing=smoothing).update(p, y)
        assert_allclose(told, naive_tracking(online, y, smoothing), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_bins", [10, 20, 100])
def test_a_forecast_on_an_edge_belongs_to_the_bin_above(n_bins, dtype):
    """0.3 / 0.1 is 2.9999..., and as float32 0.7 is below the float64 of that name."""
    grid = (np.arange(n_bins + 1) / n_bins).astype(dtype)
    places = Calibeating(None, width=1 / n_bins)._bins(grid)
    assert_array_equal(places, [*range(n_bins), n_bins - 1])
    if dtype == np.float64:
        for cell, value in enumerate(grid[:-1].tolist()):
            assert FosterForecaster(n_bins).choice(value, 0.5) == cell


def test_forecasts_in_tenths_are_told_apart():
    generator = np.random.default_rng(0)
    p = generator.choice([0.2, 0.3, 0.5, 0.6], 8000)
    y = generator.random(8000) < np.where(np.isin(p, [0.3, 0.6]), 0.9, 0.1)
    calibeating = Calibeating(None)
    calibeating.update(p, y)
    assert_allclose(calibeating.predict_proba([0.2, 0.3, 0.5, 0.6])[:, 1], [0.1, 0.9, 0.1, 0.9], atol=0.03)


@pytest.mark.parametrize("online", [None, OnlinePlatt])
def test_nothing_is_announced_as_certain(online):
    """A bin in which all rows went one way is refuted later; exact zeros and ones are among the forecasts."""
    p = np.tile([0.0, 0.02, 0.97, 1.0], 100)
    y = np.where(np.arange(400) < 360, p > 0.5, p < 0.5)
    told = Calibeating(None if online is None else online()).update(p, y)
    assert np.isfinite(np.log(np.where(y, told, 1 - told))).all()
    certain = Calibeating(None if online is None else online(), smoothing=0).update(p, y)
    assert set(certain[8:360]) == {0.0, 1.0}


@pytest.mark.parametrize("online", [None, OnlinePlatt, OnlineBeta])
def test_the_squared_error_is_that_of_the_best_constants_and_a_logarithm(online):
    """Both bounds of the docstring, on any sequence."""
    for p, y in sequences():
        told, raw = (
            Calibeating(None if online is None else online(), smoothing=smoothing).update(p, y)
            for smoothing in (1, 0)
        )
        forecasts = p if online is None else online().update(p, y)
        index = bins_of(forecasts)
        best = sum(np.sum((y[index == b] - y[index == b].mean()) ** 2) for b in np.unique(index))
        paid = np.sum((told - y) ** 2)
        n_bins = len(np.unique(index))
        assert paid <= best + n_bins * (1 + 2 * WIDTH) * (1 + np.log(len(y) + 1))
        assert np.sum((raw - y) ** 2) <= best + n_bins * (1 + np.log(len(y)))


def cell_error(forecasts, told, y):
    """Calibration error in which each bin of the forecast and each announced value is judged by itself."""
    groups = bins_of(forecasts) * 10 + bins_of(told)
    return sum(abs(np.sum(y[groups == g] - told[groups == g])) for g in np.unique(groups)) / len(y)


def test_hedged_announcements_are_calibrated_on_any_sequence():
    """The mean over coins is at most 1/20 + 10 / sqrt(T), and so is each of few runs, with a little room."""
    for p, y in sequences(20000):
        told = Calibeating(None, hedged=True, random_state=1).update(p, y)
        assert cell_error(p, told, y.astype(float)) <= WIDTH / 2 + 1 / (WIDTH * np.sqrt(20000)) + 0.01
        assert set(np.round(np.unique(told) * 100)) <= set(range(5, 100, 10))


@pytest.mark.parametrize("hedged", [False, True])
def test_an_adversary_who_knows_the_forecast_to_come(hedged):
    """Outcomes are 1 whenever the mean of what may be announced is below 1/2: tracking fails for ever, the coin not."""
    forecaster = FosterForecaster(10)
    generator = np.random.default_rng(0)
    n_rows, told, y, counts = 6000, [], [], [0.0, 0.0]
    for _ in range(n_rows):
        if hedged:
            likely = np.mean([forecaster.choice(0.5, coin) for coin in (0.1, 0.3, 0.5, 0.7, 0.9)])
            outcome = float(likely < 4.5)
            cell = forecaster.choice(0.5, float(generator.random()))
            forecaster.update(cell, outcome)
            told.append((cell + 0.5) / 10)
        else:
            mean = counts[1] / counts[0] if counts[0] else 0.5
            outcome = float(mean < 0.5)
            counts = [counts[0] + 1, counts[1] + outcome]
            told.append(mean)
        y.append(outcome)
    told, y = np.array(told), np.array(y)
    if hedged:
        cells = (told * 10).astype(int)
        error = sum(abs(np.sum(y[cells == c] - told[cells == c])) for c in range(10)) / n_rows
        assert error <= 1 / 20 + np.sqrt(10 / n_rows)
    else:
        low = told < 0.5
        assert y[low].mean() - told[low].mean() > 0.45
        assert told[~low].mean() - y[~low].mean() > 0.45


def test_the_coin_makes_the_potential_stand_still():
    """Whatever the outcome, the linear change of the sum of squares has mean zero where a coin is tossed."""
    generator = np.random.default_rng(0)
    tossed = 0
    for _ in range(150):
        cells = FosterForecaster(4)
        cells.counts = generator.integers(1, 30, 4).astype(float).tolist()
        cells.sums = [float(generator.integers(0, count + 1)) for count in cells.counts]
        left, right = cells.choice(0.6, 0.0), cells.choice(0.6, 1 - 1e-12)
        if left == right:
            assert cells.edges[left] * cells.counts[left] <= cells.sums[left]
            assert cells.sums[left] <= cells.edges[left + 1] * cells.counts[left]
            continue
        tossed += 1
        assert right == left + 1
        excess = cells.sums[left] - cells.edges[left + 1] * cells.counts[left]
        deficit = cells.edges[right] * cells.counts[right] - cells.sums[right]
        share = np.mean([cells.choice(0.6, coin) == left for coin in (np.arange(500) + 0.5) / 500])
        assert share * excess == pytest.approx((1 - share) * deficit, abs=4e-3 * (excess + deficit))
    assert tossed > 8


def test_forgetting_follows_a_break():
    generator = np.random.default_rng(0)
    p = generator.random(6000)
    y = generator.random(6000) < np.where(np.arange(6000) < 4000, 0.9, 0.2)
    last = slice(5000, 6000)
    kept, faded = Calibeating(None).update(p, y), Calibeating(None, half_life=200).update(p, y)
    assert abs(faded[last].mean() - 0.2) < 0.05 < abs(kept[last].mean() - 0.2)


@pytest.mark.parametrize("hedged", [False, True])
@pytest.mark.parametrize("online", [None, OnlinePlatt, OnlineBeta])
def test_a_state_goes_through_json_and_on_with_the_same_coins(hedged, online):
    p, y = next(sequences(900))
    first = Calibeating(None if online is None else online(), hedged=hedged)
    first.update(p[:500], y[:500])
    twin = Calibeating.from_state(json.loads(json.dumps(first.state())))
    assert_array_equal(twin.update(p[500:], y[500:]), first.update(p[500:], y[500:]))
    assert twin.n_rows == 900


@pytest.mark.parametrize("source", ["PCG64", "MT19937", "Philox", "SFC64", "PCG64DXSM"])
def test_every_source_of_coins_goes_through_json(source):
    p, y = next(sequences(600))
    coins = np.random.Generator(getattr(np.random, source)(3))
    first = Calibeating(None, hedged=True, random_state=coins)
    first.update(p[:300], y[:300])
    twin = Calibeating.from_state(json.loads(json.dumps(first.state(), allow_nan=False)))
    assert_array_equal(twin.update(p[300:], y[300:]), first.update(p[300:], y[300:]))


def test_single_numbers_are_rows_and_empty_batches_nothing():
    for made in (Calibeating(None), OnlinePlatt(), Calibeating(OnlinePlatt())):
        assert made.update([], []).shape == (0,)
        assert made.predict_proba([]).shape == (0, 2)
        assert made.n_rows == 0
        assert made.update(0.3, 1).shape == (1,)
        assert made.update(np.float32(0.3), True).shape == (1,)
        assert made.predict_proba(0.3).shape == (1, 2)
        assert made.n_rows == 2
        with pytest.raises(LabelError, match="forecasts first"):
            made.update([1, 0], [0.3, 0.8])


def test_predicting_learns_nothing_and_single_rows_are_the_same():
    p, y = next(sequences(300))
    together, single = Calibeating(OnlinePlatt()), Calibeating(OnlinePlatt())
    forecasts = together.update(p, y)
    for row in range(300):
        assert single.predict_proba(p[row : row + 1])[0, 1] == pytest.approx(forecasts[row], rel=1e-12)
        single.learn_one(p[row], y[row])
    columns = single.predict_proba(p)
    assert_allclose(columns.sum(axis=1), 1)


@pytest.mark.parametrize(
    "options",
    [
        {"width": 0.3},
        {"width": 0},
        {"online": "platt"},
        {"hedged": "yes"},
        {"half_life": -1},
        {"smoothing": -1},
    ],
    ids=str,
)
def test_options_without_meaning_are_refused(options):
    with pytest.raises(ParameterError):
        Calibeating(**options)
    with pytest.raises(ParameterError, match="not a state"):
        Calibeating.from_state(OnlinePlatt().state())
