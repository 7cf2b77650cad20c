"""The pool of the automatic choice: its weights, the simplest choice, and standard errors."""

from dataclasses import replace

import numpy as np
import pytest

from calibrant import Identity, IsotonicCalibration, TemperatureScaling, VectorScaling
from calibrant.calibrators.combinators.auto import pool as pool_module
from calibrant.calibrators.combinators.auto.pool import (
    PRIOR_ROWS,
    PRIOR_ROWS_OF_IDENTITY,
    PRIOR_ROWS_OF_STEPS,
    PRIOR_ROWS_OF_TEMPERATURE,
    pooled,
    prior_log_odds,
    probability_of_identity,
    single,
)
from calibrant.calibrators.combinators.auto.trials import Candidate, Trial, Trials


def trials_of(losses, fold_numbers=None, weights=None, group_of_row=None):
    """Return trials whose losses are the columns of a matrix; the first is the identity's."""
    n_rows = len(losses)
    kinds = [Identity(), TemperatureScaling(), VectorScaling(), IsotonicCalibration()] * 3
    candidates = [Candidate(f"candidate {number}", kind) for number, kind in enumerate(kinds)]
    return Trials(
        [Trial(candidate, column, 0.0) for candidate, column in zip(candidates, losses.T, strict=False)],
        np.ones(n_rows) if weights is None else weights,
        np.arange(n_rows) % 5 if fold_numbers is None else fold_numbers,
        np.arange(n_rows) if group_of_row is None else group_of_row,
        np.ones(n_rows, dtype=np.intp),
        n_rows,
        np.arange(n_rows),
    )


@pytest.fixture
def mixture_alone(monkeypatch):
    """Predictions are never calibrated, so that the pool is the mixture."""
    monkeypatch.setattr(pool_module, "prior_log_odds", lambda n_classes: -np.inf)  # noqa: ARG005


@pytest.mark.usefixtures("mixture_alone")
def test_weights_are_those_that_expectation_maximisation_finds():
    """A naive second way: every row is shared out among candidates by their likelihood, the prior added in."""
    generator = np.random.default_rng(0)
    losses = generator.exponential(1.0, (200, 4))
    weights = generator.integers(1, 4, 200).astype(float)
    prior = np.array([PRIOR_ROWS_OF_IDENTITY, PRIOR_ROWS_OF_TEMPERATURE, *[PRIOR_ROWS] * 2])
    mixture = np.full(4, 0.25)
    for _ in range(5000):
        shares = mixture * np.exp(-losses)
        shares /= shares.sum(axis=1, keepdims=True)
        mixture = weights @ shares + prior
        mixture /= mixture.sum()
    found = pooled(trials_of(losses, weights=weights), negligible=0.0, n_classes=3)
    np.testing.assert_allclose(found.weights, mixture, atol=1e-5)


@pytest.mark.usefixtures("mixture_alone")
def test_candidates_of_one_family_share_their_prior_belief():
    """Eight copies of a candidate get together what one of them would get."""
    losses = np.random.default_rng(3).exponential(1.0, (40, 3))
    alone = pooled(trials_of(losses), negligible=0.0, n_classes=3).weights
    copies = losses[:, [0, 1, 2, 2, 2]]
    kinds = [Identity(), TemperatureScaling(), *[VectorScaling()] * 3]
    trials = Trials(
        [Trial(Candidate(str(number), kind), copies[:, number], 0.0) for number, kind in enumerate(kinds)],
        np.ones(40),
        np.arange(40) % 5,
        np.arange(40),
        np.ones(40, dtype=np.intp),
        40,
        np.arange(40),
    )
    shared = pooled(trials, negligible=0.0, n_classes=3).weights
    np.testing.assert_allclose([*shared[:2], shared[2:].sum()], alone, atol=1e-6)


@pytest.mark.usefixtures("mixture_alone")
def test_losses_of_the_pool_are_those_of_weights_that_have_not_seen_the_row():
    losses = np.random.default_rng(1).exponential(1.0, (60, 3))
    numbers = np.arange(60) % 3
    found = pooled(trials_of(losses, numbers), negligible=0.0, n_classes=3)
    for fold in range(3):
        own = numbers == fold
        without = pooled(trials_of(losses[~own], numbers[~own]), negligible=0.0, n_classes=3).weights
        np.testing.assert_allclose(found.losses[own], -np.log(np.exp(-losses[own]) @ without), atol=1e-9)


@pytest.mark.usefixtures("mixture_alone")
def test_negligible_components_are_dropped_and_the_others_share_their_weight():
    losses = np.random.default_rng(2).exponential(1.0, (300, 12))
    all_of_them = pooled(trials_of(losses), negligible=0.0, n_classes=3).weights
    assert all_of_them.min() > 0
    some = pooled(trials_of(losses), negligible=0.1, n_classes=3).weights
    assert (some[some > 0] >= 0.1).all()
    assert some.sum() == pytest.approx(1)
    assert (some == 0).any()


def test_step_functions_have_a_small_prior():
    losses = np.ones((20, 3))
    losses[:, 0] = 9.0
    kinds = {
        "uncalibrated": Identity(),
        "temperature": TemperatureScaling(),
        "isotonic": IsotonicCalibration(),
    }
    trials = replace(
        trials_of(losses),
        trials=[Trial(Candidate(*kind), losses[:, place], 0.0) for place, kind in enumerate(kinds.items())],
    )
    weights = pooled(trials, negligible=0.0, n_classes=3).weights
    assert weights[2] / weights[1] == pytest.approx(PRIOR_ROWS_OF_STEPS / PRIOR_ROWS_OF_TEMPERATURE, rel=1e-3)


@pytest.mark.parametrize("advantage", [-0.2, 0.0, 0.05, 1.0])
def test_the_identity_has_the_posterior_probability_of_calibrated_predictions(advantage, monkeypatch):
    losses = np.random.default_rng(4).exponential(1.0, (50, 3))
    losses[:, 0] += advantage
    pool = pooled(trials_of(losses), negligible=0.0, n_classes=3)
    monkeypatch.setattr(pool_module, "prior_log_odds", lambda n_classes: -np.inf)  # noqa: ARG005
    mixture = pooled(trials_of(losses), negligible=0.0, n_classes=3)
    monkeypatch.undo()
    share = probability_of_identity((losses[:, 0] - mixture.losses).sum(), prior_log_odds(3), 0.0)
    np.testing.assert_allclose(pool.weights, share * np.eye(3)[0] + (1 - share) * mixture.weights, atol=1e-12)


def test_a_pool_that_is_worse_on_held_out_rows_leaves_the_identity():
    """Every candidate is worse by 0.2 nats on each of 100 rows."""
    losses = np.random.default_rng(5).exponential(1.0, (100, 1)) + np.array([0.0, 0.2, 0.2])
    np.testing.assert_array_equal(pooled(trials_of(losses), negligible=0.2, n_classes=3).weights, [1, 0, 0])


def test_a_single_choice_is_the_simplest_within_a_standard_error_of_the_best():
    """The third candidate is best by 0.01 with a standard error of 0.05 over the second, and far ahead of the first."""
    noise = np.tile([0.5, -0.5], 50)
    base = np.ones(100)
    losses = np.stack([base + 1.0, base + 0.01 + noise, base], axis=1)
    np.testing.assert_array_equal(single(trials_of(losses)).weights, [0, 1, 0])
    sharper = np.stack([base + 1.0, base + 0.01 + noise / 100, base], axis=1)
    np.testing.assert_array_equal(single(trials_of(sharper)).weights, [0, 0, 1])


def test_the_losses_of_a_single_choice_are_those_of_choices_without_the_fold():
    """Without the first fold the second candidate looks best, with it the third: rows of that fold must not choose."""
    losses = np.ones((50, 3))
    numbers = np.arange(50) // 10
    losses[:, 1], losses[:, 2] = 0.5, 0.6
    losses[numbers == 0, 1], losses[numbers == 0, 2] = 5.0, 0.0
    found = single(trials_of(losses, numbers))
    np.testing.assert_array_equal(found.losses[numbers == 0], 5.0)
    np.testing.assert_array_equal(found.weights, [0, 0, 1])


def test_a_standard_error_counts_units_not_rows():
    terms = np.random.default_rng(0).normal(size=50)
    alone = trials_of(terms[:, np.newaxis]).standard_error(terms)
    assert alone == pytest.approx(terms.std(ddof=1) / np.sqrt(50))
    copies = np.repeat(terms, 20)
    many = trials_of(copies[:, np.newaxis], group_of_row=np.repeat(np.arange(50), 20))
    assert many.standard_error(copies) == pytest.approx(alone)


def test_a_row_that_stands_for_several_observations_has_their_standard_error():
    losses = np.random.default_rng(0).normal(size=(6, 1))
    counts = np.array([1, 3, 2, 1, 1, 4])
    together = trials_of(losses, weights=counts.astype(float))
    together = replace(together, n_observations=counts)
    alone = trials_of(np.repeat(losses, counts, axis=0))
    assert together.standard_error(losses[:, 0]) == pytest.approx(
        alone.standard_error(np.repeat(losses[:, 0], counts))
    )
