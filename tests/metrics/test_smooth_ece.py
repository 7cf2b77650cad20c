"""The smooth calibration error against direct sums, closed forms and another library."""

import tracemalloc
from math import erf, exp, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from calibrant import Predictions
from calibrant.errors import ParameterError
from calibrant.metrics.smooth import LEVELS, smooth_ece
from calibrant.numerics.reflected_kernel import linear_binning
from data import load
from strategies import problems


def positive(outcomes, scores, **options):
    return smooth_ece(outcomes, scores, kind="positive", **options)


def naive_error(outcomes, scores, weights, width, n_points=800):
    """The definition: for every t, the kernel with all its mirror images, over all rows."""
    total = sum(weights)
    result = 0.0
    reflections = range(-int(4 * width) - 2, int(4 * width) + 3)
    for j in range(n_points):
        t = (j + 0.5) / n_points
        smoothed = 0.0
        for y, p, w in zip(outcomes, scores, weights, strict=True):
            kernel = sum(
                exp(-0.5 * ((t - image) / width) ** 2)
                for k in reflections
                for image in (2 * k + p, 2 * k - p)
                if abs(t - image) < 9 * width
            )
            smoothed += w / total * kernel / (width * sqrt(2 * pi)) * (y - p)
        result += abs(smoothed) / n_points
    return result


def vectorised_error(outcomes, scores, width, n_points):
    """The same sum, by rows, with the images that matter for widths below 0.1."""
    points = (np.arange(n_points) + 0.5) / n_points
    density = np.zeros(n_points)
    for residual, score in zip(outcomes - scores, scores, strict=True):
        for image in (score, -score, 2 - score):
            density += residual * np.exp(-0.5 * ((points - image) / width) ** 2)
    return np.abs(density).mean() / (width * np.sqrt(2 * np.pi) * len(scores))


def low_discrepancy_problem():
    """400 scores from 0.2 to 0.8 of events of probability p^1.5, without a random generator."""
    i = np.arange(400)
    scores = 0.2 + 0.6 * (i * 0.6180339887498949 % 1)
    return ((i * 0.7548776662466927 % 1) < scores**1.5).astype(int), scores


def random_problem(n_rows, seed=0):
    generator = np.random.default_rng(seed)
    scores = generator.beta(0.7, 0.7, n_rows)
    return (generator.random(n_rows) < scores).astype(int), scores


class TestDefinition:
    @pytest.mark.parametrize("width", [0.03, 0.1, 0.5, 2.0])
    def test_a_given_width_is_the_sum_over_rows_and_mirror_images(self, width):
        generator = np.random.default_rng(1)
        scores = np.array([0.0, 1.0, 1.0, *generator.random(9)])
        outcomes = generator.integers(0, 2, 12)
        weights = generator.random(12) + 0.2
        ours = positive(outcomes, scores, sample_weight=weights, bandwidth=width)
        assert ours == pytest.approx(naive_error(outcomes, scores, weights, width), rel=1e-4)

    @pytest.mark.parametrize("width", [0.05, 0.01, 0.003, 0.001])
    def test_the_grids_move_the_value_by_less_than_one_part_in_ten_thousand(self, width):
        """Scores that fall between nodes in all ways; the midpoint rule has sixty points to a width."""
        outcomes, scores = random_problem(150)
        expected = vectorised_error(outcomes, scores, width, int(60 / width))
        assert positive(outcomes, scores, bandwidth=width) == pytest.approx(expected, rel=3e-5)

    def test_a_very_small_width(self):
        """Eight pieces of the integral and thirty-two cells to a width."""
        outcomes, scores = random_problem(20)
        expected = vectorised_error(outcomes, scores, 2.5e-4, 200_000)
        assert positive(outcomes, scores, bandwidth=2.5e-4) == pytest.approx(expected, rel=1e-4)

    @pytest.mark.parametrize("n_rows", [50, 500])
    def test_the_default_is_the_fixed_point_of_the_direct_sum(self, n_rows):
        outcomes, scores = random_problem(n_rows, seed=3)

        def excess(width):
            return vectorised_error(outcomes, scores, width, 3000) - width

        expected = brentq(excess, 1e-3, 0.5, xtol=1e-9)
        assert positive(outcomes, scores) == pytest.approx(expected, rel=3e-5)

    @settings(max_examples=25, deadline=None)
    @given(problem=problems())
    def test_at_its_own_width_the_error_is_that_width(self, problem):
        probabilities, labels = problem
        value = smooth_ece(labels, probabilities)
        if value > 1e-3:
            assert smooth_ece(labels, probabilities, bandwidth=value) == pytest.approx(value, rel=1e-4)
        assert 0 <= value <= 1

    def test_a_fixed_point_between_levels_of_the_search(self):
        """Fixed points from 0.1 down to 1e-4, each of which solves its own equation.

        Two groups at 1/2 +- d, wrong by r in opposite directions: at width s the error is r erf(d / s sqrt 2).
        """
        for target in np.geomspace(1e-4, 0.1, 13):
            distance = 1.5 * target
            gap = target / erf(1.5 / sqrt(2))
            rate = 0.5 - distance + gap  # and by symmetry for the group above
            weights = [rate, 1 - rate, 1 - rate, rate]
            scores = [0.5 - distance] * 2 + [0.5 + distance] * 2
            value = positive([1, 0, 1, 0], scores, sample_weight=weights)
            assert value == pytest.approx(target, rel=3e-3 if target < 2e-4 else 2e-4, abs=1e-7)

    def test_a_width_of_a_few_cells_is_good_to_one_part_in_a_hundred(self):
        """Twenty rows at random places at the finest widths; the midpoint rule has thirty points to a width."""
        outcomes, scores = random_problem(20, seed=6)
        scores = 0.5 + 1e-3 * scores
        for width in (2e-5, 5e-5, 1e-4):
            points = 0.4985 + 4e-3 * (np.arange(6000) + 0.5) / 6000
            density = np.zeros(6000)
            for residual, score in zip(outcomes - scores, scores, strict=True):
                density += residual * np.exp(-0.5 * ((points - score) / width) ** 2)
            expected = 4e-3 * np.abs(density).mean() / (width * np.sqrt(2 * np.pi) * 20)
            assert positive(outcomes, scores, bandwidth=width) == pytest.approx(expected, rel=0.01)


class TestClosedForms:
    def test_one_place_has_the_gap_of_its_means_at_every_width(self):
        """The kernel integrates to one and all residuals share it: |9/10 - 8/10|."""
        labels, probabilities = [0] * 9 + [1], [[0.8, 0.2]] * 10
        for width in (None, 2e-5, 0.01, 1.0, 50.0):
            assert smooth_ece(labels, probabilities, bandwidth=width) == pytest.approx(0.1, abs=1e-10)

    @settings(max_examples=30, deadline=None)
    @given(score=st.floats(0, 1), n_right=st.integers(0, 20))
    def test_constant_scores(self, score, n_right):
        outcomes = np.arange(20) < n_right
        expected = abs(n_right / 20 - score)
        assert positive(outcomes.astype(int), np.full(20, score)) == pytest.approx(expected, abs=1e-9)

    def test_residuals_of_one_sign_are_all_counted(self):
        scores = np.linspace(0, 0.9, 30)
        assert positive(np.ones(30, int), scores) == pytest.approx(1 - scores.mean(), rel=1e-12)

    def test_certain_and_right_is_zero_and_certain_and_wrong_is_one(self):
        assert positive([0, 1, 1], [0.0, 1.0, 1.0]) == 0.0
        assert positive([0, 0], [1.0, 1.0]) == pytest.approx(1.0, rel=1e-12)

    def test_one_row(self):
        assert smooth_ece([1], [[0.2, 0.5, 0.3]]) == pytest.approx(0.5, rel=1e-12)
        assert smooth_ece([0], [[0.2, 0.5, 0.3]]) == pytest.approx(0.5, rel=1e-12)

    def test_classwise_is_the_mean_over_classes(self):
        generator = np.random.default_rng(5)
        probabilities = generator.dirichlet(np.ones(3), 200)
        labels = generator.integers(0, 3, 200)
        expected = np.mean([positive((labels == k).astype(int), probabilities[:, k]) for k in range(3)])
        assert smooth_ece(labels, probabilities, kind="classwise") == pytest.approx(expected, rel=1e-12)

    def test_what_cancels_within_the_width_does_not_count(self):
        """Scores 0.5 -+ 1e-6 that are wrong by a tenth in opposite directions are calibrated but for a hair."""
        scores = np.repeat([0.5 - 1e-6, 0.5 + 1e-6], 10)
        outcomes = np.r_[np.arange(10) < 6, np.arange(10) < 4].astype(int)
        assert positive(outcomes, scores) < 1e-3
        assert positive(outcomes, np.repeat([0.3, 0.7], 10)) > 0.2


class TestInequalities:
    @settings(max_examples=30, deadline=None)
    @given(problem=problems(), data=st.data())
    def test_it_lies_between_the_gap_of_the_means_and_the_gaps_of_all_distinct_scores(self, problem, data):
        """|E r| <= smECE_s <= E |E[r | p]| <= E |r|, for Jensen's inequality on both sides."""
        probabilities, labels = problem
        scores = np.minimum(probabilities.max(axis=1).astype(np.float64), 1)
        residuals = (probabilities.argmax(axis=1) == labels) - scores
        binless = sum(abs(residuals[scores == score].sum()) for score in np.unique(scores)) / len(labels)
        width = data.draw(st.one_of(st.none(), st.floats(2e-5, 2)))
        value = smooth_ece(labels, probabilities, bandwidth=width)
        assert abs(residuals.mean()) <= value + 1e-6
        assert value <= binless + 1e-6

    @settings(max_examples=25, deadline=None)
    @given(problem=problems(), widths=st.tuples(st.floats(2e-5, 1), st.floats(2e-5, 1)))
    def test_it_does_not_increase_with_the_width(self, problem, widths):
        probabilities, labels = problem
        narrow, wide = (smooth_ece(labels, probabilities, bandwidth=b) for b in sorted(widths))
        assert wide <= narrow * (1 + 1e-3) + 1e-9

    def test_it_is_continuous_where_bins_jump(self):
        """Scores on either side of one half: a step of 1e-6 moves the error by about as much."""
        outcomes = np.r_[np.arange(100) < 45, np.arange(100) < 60].astype(int)
        values = [positive(outcomes, np.repeat([0.5 - step, 0.55], 100)) for step in (-1e-6, 0.0, 1e-6, 2e-6)]
        assert np.abs(np.diff(values)).max() < 3e-6


class TestCost:
    def test_wide_kernels_take_no_more_than_they_need(self):
        """The first level, where most errors of an event are found, has grids of some thousand nodes."""
        assert LEVELS[0].n_cells <= 2**13
        for level in LEVELS:
            assert level.n_cells * level.width >= 4
            assert level.n_pieces * level.width >= 4
        fine = [level for level in LEVELS if level.width >= 2**-12]
        # (cell / width)^2 / 12 is what the documentation promises to be below one part in 10,000.
        assert all((1 / (level.n_cells * level.width)) ** 2 / 12 < 1e-4 for level in fine)


class TestAgainstRelplot:
    """relplot 1.0.3 (ml-calibration, the paper's own program): figures of smECE and smECE_sigma.

    Its width is found by ten halvings, its integral a sum over 200 points, its kernel cut off at half the
    interval: about three digits.
    """

    def test_away_from_the_ends_the_two_agree(self):
        outcomes, scores = low_discrepancy_problem()
        assert positive(outcomes, scores) == pytest.approx(0.1251518052199079, rel=3e-4)
        printed = {0.02: 0.12565443033217377, 0.05: 0.1251690450288453, 0.1: 0.12515703831879554}
        for width, expected in printed.items():
            assert positive(outcomes, scores, bandwidth=width) == pytest.approx(expected, rel=2e-4)

    def test_on_the_doubtful_predictions_of_a_network(self):
        """LeNet on CIFAR-10, the 8347 rows of a confidence below 0.9."""
        arrays = load("cifar_netcal/c10_lenet_5")
        doubtful = arrays["probs"].max(axis=1) < 0.9
        labels, probabilities = arrays["y"][doubtful], arrays["probs"][doubtful].astype(np.float64)
        assert smooth_ece(labels, probabilities) == pytest.approx(0.11617029603845891, rel=3e-4)

    def test_scores_next_to_the_ends_lose_half_their_weight_there_but_not_here(self):
        """A wide residual network of which a quarter of all confidences are 1.

        relplot counts the last node of its grid once where a mirror image would make it twice, and so leaves
        out half of every row within a thousandth of 1: mostly right ones, so that its 0.0723 is above
        the gap of the means by almost a half. Doing as it does gives its figure.
        """
        arrays = load("cifar_netcal/c10_wideresnet_16_4")
        rows = np.random.default_rng(0).permutation(10_000)[5000:]
        probabilities, labels = arrays["probs"][rows].astype(np.float64), arrays["y"][rows]
        confidences = np.minimum(probabilities.max(axis=1), 1)
        residuals = (probabilities.argmax(axis=1) == labels) - confidences

        def on_their_grid(width, count_ends):
            cells, mesh = np.arange(1001) / 1000, np.linspace(0, 1, 200)
            kernel = np.exp(-0.5 * ((mesh[:, None] - cells) / width) ** 2)
            kernel += np.exp(-0.5 * ((mesh[:, None] - (2 - cells)) / width) ** 2)
            kernel += np.exp(-0.5 * ((mesh[:, None] + cells) / width) ** 2)
            kernel[:, [0, -1]] *= count_ends / 2
            smoothed = [kernel @ linear_binning(confidences, mass, 1000) for mass in (residuals, None)]
            return np.abs(smoothed[0]).sum() / smoothed[1].sum()

        their_width, their_value = 0.0732421875, 0.07228830104548069
        assert on_their_grid(their_width, count_ends=1) == pytest.approx(their_value, rel=1e-5)
        ours = smooth_ece(labels, probabilities)
        assert on_their_grid(ours, count_ends=2) == pytest.approx(ours, rel=0.02)
        assert abs(residuals.mean()) < ours < 1.01 * abs(residuals.mean())

    def test_a_saturated_network_stays_within_bounds_that_the_program_leaves(self):
        """ResNet-110: five of six confidences are above 0.999; relplot prints 0.0707 where 0.0645 is the most."""
        arrays = load("kull_nn/c10_resnet110")
        predictions = Predictions.from_logits(arrays["test_logits"])
        residuals = (predictions.predicted == arrays["test_y"]) - predictions.probabilities.max(axis=1)
        value = smooth_ece(arrays["test_y"], predictions)
        assert value == pytest.approx(0.0475, abs=5e-5)
        assert abs(residuals.mean()) - 1e-6 <= value <= np.abs(residuals).mean() < 0.0707


class TestInputs:
    def test_float32_gives_the_value_of_the_same_numbers_in_float64(self):
        generator = np.random.default_rng(7)
        probabilities = generator.dirichlet(np.full(4, 0.2), 500).astype(np.float32)
        labels = generator.integers(0, 4, 500)
        for kind in ("confidence", "classwise"):
            in_double = smooth_ece(labels, probabilities.astype(np.float64), kind=kind)
            assert smooth_ece(labels, probabilities, kind=kind) == pytest.approx(in_double, abs=1e-6)

    def test_saturated_logits(self):
        predictions = Predictions.from_logits(np.array([[200.0, 0.0], [0.0, 200.0]] * 5, dtype=np.float32))
        assert smooth_ece([0, 1] * 5, predictions) == 0.0
        assert smooth_ece([1, 0] * 5, predictions) == pytest.approx(1.0)

    def test_weights_are_counts(self):
        outcomes, scores = random_problem(80, seed=8)
        counts = np.random.default_rng(9).integers(0, 4, 80)
        weighted = positive(outcomes, scores, sample_weight=counts)
        assert weighted == pytest.approx(
            positive(np.repeat(outcomes, counts), np.repeat(scores, counts)), rel=1e-9
        )
        assert weighted == pytest.approx(positive(outcomes, scores, sample_weight=counts * 1e-7), rel=1e-9)

    def test_many_classes(self):
        generator = np.random.default_rng(10)
        probabilities = generator.dirichlet(np.full(100, 0.1), 300)
        value = smooth_ece(generator.integers(0, 100, 300), probabilities, kind="classwise")
        assert type(value) is float
        assert 0 < value < 0.02

    def test_memory_is_a_few_columns(self):
        generator = np.random.default_rng(11)
        scores = generator.random(400_000)
        outcomes = (generator.random(400_000) < scores).astype(int)
        predictions = Predictions.parse(scores)
        tracemalloc.start()
        value = smooth_ece(outcomes, predictions)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert value < 0.02
        assert peak < 12 * 8 * 400_000 + 2e7

    @pytest.mark.parametrize("bandwidth", [0, -1, 1e-5, np.nan, np.inf, "wide"])
    def test_a_bandwidth_must_be_a_number_that_the_grid_resolves(self, bandwidth):
        with pytest.raises(ParameterError, match="bandwidth must be a finite number of at least 2e-5"):
            smooth_ece([0, 1], [0.2, 0.7], bandwidth=bandwidth)

    def test_the_kind_must_be_known(self):
        with pytest.raises(ParameterError, match="kind must be"):
            smooth_ece([0, 1], [0.2, 0.7], kind="all")
        with pytest.raises(ParameterError, match="two classes"):
            smooth_ece([0, 1], [[0.2, 0.7, 0.1]] * 2, kind="positive")


@pytest.mark.slow
def test_of_calibrated_scores_it_falls_with_the_cube_root_of_the_number_of_rows():
    """Noise of the size (n s)^(-1/2) at the width s meets s at n^(-1/3): 64 times the rows, a quarter."""
    errors = {n: np.mean([positive(*random_problem(n, seed)) for seed in range(20)]) for n in (1000, 64_000)}
    assert errors[1000] / errors[64_000] == pytest.approx(4, rel=0.25)
