"""The kernel density calibration error against direct sums, closed forms and the authors' figures."""

import tracemalloc
from itertools import pairwise
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from calibrant import Predictions
from calibrant.errors import ParameterError
from calibrant.metrics.kde import effective_rows, kde_ece, rule_of_thumb, standard_deviation, triweight
from data import load
from strategies import problems

SMALLEST = 2.0**-12
CONVENTIONS = ["paper", "published"]


def positive(outcomes, scores, **options):
    return kde_ece(outcomes, scores, kind="positive", **options)


def random_problem(n_rows, seed=0):
    generator = np.random.default_rng(seed)
    scores = generator.beta(0.7, 0.7, n_rows)
    return (generator.random(n_rows) < scores).astype(int), scores


def naive_kernel(distance, bandwidth):
    u = distance / (3 * bandwidth)
    return 35 / 32 * (1 - u * u) ** 3 / (3 * bandwidth) if abs(u) < 1 else 0.0


def naive_error(outcomes, scores, weights, norm, bandwidth, n_points=1500):
    """For every t: the density and the rate of events by sums over all rows and mirror images."""
    total = sum(weights)
    result = 0.0
    for j in range(n_points):
        t = (j + 0.5) / n_points
        density = events = 0.0
        for y, c, w in zip(outcomes, scores, weights, strict=True):
            kernel = sum(
                naive_kernel(t - image, bandwidth)
                for k in (-2, -1, 0, 1, 2)
                for image in (2 * k + c, 2 * k - c)
            )
            density += w / total * kernel
            events += w / total * kernel * y
        if density > 0:
            result += abs(t - events / density) ** norm * density / n_points
    return result ** (1 / norm)


def naive_published(outcomes, scores, norm):
    """The published program by loops over its grid: see the notes of kde_ece."""
    grid = np.linspace(-0.6, 1.6, 2**14)
    step = 2.2 / (2**14 - 1)
    events = np.array([c for c, y in zip(scores, outcomes, strict=True) if y], dtype=np.float32)
    bandwidth = float(np.std(events)) * (2 * len(scores)) ** -0.2

    def density(values):
        mirrored = [-c if c < 0.5 else np.float32(2) - c if c.dtype == np.float32 else 2 - c for c in values]
        nodes = np.zeros(len(grid))
        for c in [*values, *mirrored]:
            place = (float(c) + 0.6) / step
            nodes[int(place)] += (1 - place % 1) / len(values)
            nodes[int(place) + 1] += place % 1 / len(values)
        reach = int(3 * bandwidth / step)
        kernel = [naive_kernel(step * k, bandwidth) for k in range(-reach, reach + 1)]
        smoothed = np.convolve(nodes, kernel, mode="same")
        return np.where((grid > 0) & (grid < 1), smoothed, 0.0)

    of_events, of_all = density(events), density(scores)
    share = len(events) / len(scores)
    integrand = [0.0]
    for t, f1, f in zip(grid[1:], of_events[1:], of_all[1:], strict=True):
        if max(f1, f) > 1e-6:
            integrand.append(abs(t - min(share * f1 / f, 1.0)) ** norm * f if f > 0 else 0.0)
        else:
            integrand.append(integrand[-1])
    integral = mass = 0.0
    for j in range(len(grid) - 1):
        if grid[j] >= 0 and grid[j + 1] <= 1:
            integral += (integrand[j] + integrand[j + 1]) / 2
            mass += (of_all[j] + of_all[j + 1]) / 2
    return integral / mass


class TestDefinition:
    @pytest.mark.parametrize("norm", [1, 2, 3.5])
    @pytest.mark.parametrize("bandwidth", [0.02, 0.1, 0.6])
    def test_it_is_the_integral_of_sums_over_rows_and_mirror_images(self, norm, bandwidth):
        generator = np.random.default_rng(1)
        scores = np.array([0.0, 1.0, 1.0, *generator.random(7)])
        outcomes = generator.integers(0, 2, 10)
        weights = generator.random(10) + 0.2
        ours = positive(outcomes, scores, sample_weight=weights, norm=norm, bandwidth=bandwidth)
        assert ours == pytest.approx(naive_error(outcomes, scores, weights, norm, bandwidth), rel=3e-4)

    def test_the_default_bandwidth_is_scotts(self):
        outcomes, scores = random_problem(300)
        bandwidth = 1.06 * np.std(scores) * 300**-0.2
        assert positive(outcomes, scores) == pytest.approx(
            positive(outcomes, scores, bandwidth=bandwidth), rel=1e-12
        )

    def test_the_bandwidth_is_the_standard_deviation_of_the_kernel(self):
        points = np.linspace(-1, 1, 200_001)
        density = triweight(points, 0.2)
        assert density.sum() * 1e-5 == pytest.approx(1, rel=1e-9)
        assert (points**2 * density).sum() * 1e-5 == pytest.approx(0.04, rel=1e-9)

    def test_the_grid_moves_the_value_by_less_than_one_part_in_a_thousand(self):
        """Direct sums at 20,000 points, ten and more to the smallest of these bandwidths."""
        outcomes, scores = random_problem(100, seed=2)
        points = (np.arange(20_000) + 0.5) / 20_000
        for bandwidth in (0.0005, 0.005, 0.05):
            density = np.zeros(20_000)
            events = np.zeros(20_000)
            for y, c in zip(outcomes, scores, strict=True):
                kernel = sum(triweight(points - image, bandwidth) for image in (c, -c, 2 - c)) / 100
                density += kernel
                events += y * kernel
            expected = np.abs(points * density - events).mean()
            assert positive(outcomes, scores, bandwidth=bandwidth) == pytest.approx(expected, rel=1e-4)

    def test_classwise_is_the_mean_over_classes(self):
        generator = np.random.default_rng(5)
        probabilities, labels = generator.dirichlet(np.ones(3), 200), generator.integers(0, 3, 200)
        for convention in CONVENTIONS:
            expected = np.mean(
                [
                    positive((labels == k).astype(int), probabilities[:, k], convention=convention)
                    for k in range(3)
                ]
            )
            value = kde_ece(labels, probabilities, kind="classwise", convention=convention)
            assert value == pytest.approx(expected, rel=1e-9)


class TestClosedForms:
    def test_one_place_has_the_gap_of_its_means(self):
        """The kernel is even, so that the mean distance from 9/10 of what lies all below it is 1/10."""
        assert kde_ece([0] * 9 + [1], [[0.8, 0.2]] * 10) == pytest.approx(0.1, abs=1e-9)
        # Smoothing adds the variance of the kernel to the squared gap.
        squared = kde_ece([0] * 9 + [1], [[0.8, 0.2]] * 10, norm=2, bandwidth=0.01)
        assert squared == pytest.approx(sqrt(0.1**2 + 0.01**2), rel=1e-4)

    @settings(max_examples=20, deadline=None)
    @given(score=st.floats(0, 1), n_right=st.integers(0, 20), norm=st.sampled_from([1, 2]))
    def test_constant_scores(self, score, n_right, norm):
        """At the smallest bandwidth, by which the kernel moves the value at most."""
        outcomes = (np.arange(20) < n_right).astype(int)
        value = positive(outcomes, np.full(20, score), norm=norm)
        assert value == pytest.approx(abs(n_right / 20 - score), abs=SMALLEST * 1.01)

    def test_all_right_and_all_wrong(self):
        """Reflection at 1 keeps the mass: with every rate 1 or 0 the error is the mean of 1 - t or t."""
        scores = np.random.default_rng(3).uniform(0.3, 0.7, 200)
        assert positive(np.ones(200, int), scores) == pytest.approx(1 - scores.mean(), abs=1e-6)
        assert positive(np.zeros(200, int), scores) == pytest.approx(scores.mean(), abs=1e-6)

    @pytest.mark.parametrize("norm", [1, 2])
    def test_one_row(self, norm):
        assert kde_ece([1], [[0.2, 0.5, 0.3]], norm=norm) == pytest.approx(0.5, abs=1e-6)
        assert kde_ece([0], [[0.2, 0.5, 0.3]], norm=norm) == pytest.approx(0.5, abs=1e-6)
        assert kde_ece([1], [[0.0, 1.0]], norm=norm) == pytest.approx(0.0, abs=SMALLEST * 1.01)
        assert kde_ece([0], [[0.0, 1.0]], norm=norm) == pytest.approx(1.0, abs=SMALLEST * 1.01)

    def test_the_triweight_moves_a_calibrated_constant_by_its_mean_distance(self):
        """Scores and rate 1/2: the mean of |u| under the triweight is 35/128 of its reach."""
        outcomes = np.arange(20) % 2
        value = positive(outcomes, np.full(20, 0.5), bandwidth=0.04)
        assert value == pytest.approx(35 / 128 * 3 * 0.04, rel=1e-4)

    @settings(max_examples=25, deadline=None)
    @given(problem=problems(), norm=st.sampled_from([1, 2, 5]))
    def test_it_lies_between_zero_and_one(self, problem, norm):
        probabilities, labels = problem
        for kind in ("confidence", "classwise"):
            assert 0 <= kde_ece(labels, probabilities, kind=kind, norm=norm) <= 1 + 1e-9

    @settings(max_examples=15, deadline=None)
    @given(problem=problems())
    def test_a_higher_norm_is_not_smaller(self, problem):
        probabilities, labels = problem
        values = [kde_ece(labels, probabilities, norm=norm) for norm in (1, 1.5, 2, 4)]
        assert all(b >= a - 1e-9 for a, b in pairwise(values))


class TestPublishedProgram:
    @pytest.mark.parametrize("norm", [1, 2])
    def test_it_is_the_loop_over_the_grid(self, norm):
        """The scores in the middle are left out, so that the integrand is repeated over a gap."""
        outcomes, scores = random_problem(60, seed=4)
        keep = np.abs(scores - 0.55) > 0.3
        outcomes, scores = outcomes[keep], scores[keep]
        ours = positive(outcomes, scores, norm=norm, convention="published")
        assert ours == pytest.approx(naive_published(outcomes, scores, norm), rel=1e-9)

    @pytest.mark.parametrize(
        ("temperature", "norm", "printed"),
        [
            (None, 1, "0.04431713"),
            (None, 2, "0.006647682"),
            (2.0674366, 1, "0.01460485"),
            (2.0674366, 2, "0.0005772272"),
        ],
    )
    def test_it_gives_the_figures_of_the_authors_program_to_all_digits(self, temperature, norm, printed):
        """Mix-n-Match on a wide residual network, as it is and temperature-scaled, half of CIFAR-10's test."""
        arrays = load("cifar_netcal/c10_wideresnet_16_4")
        rows = np.random.default_rng(0).permutation(10_000)[5000:]
        probabilities, labels = arrays["probs"][rows].astype(np.float64), arrays["y"][rows]
        probabilities = softmax(np.log(probabilities) / (temperature or 1.0), axis=1)
        if temperature is None:
            probabilities = arrays["probs"][rows].astype(np.float64)
            probabilities /= probabilities.sum(axis=1, keepdims=True)
        ours = kde_ece(labels, probabilities, norm=norm, convention="published")
        assert f"{ours:.7g}" == printed.rstrip("0")

    def test_the_paper_and_the_program_differ_on_the_same_rows(self):
        """By the bandwidth, by the root, and by the repeated integrand."""
        outcomes, scores = random_problem(500, seed=5)
        for norm in (1, 2):
            paper, program = (
                positive(outcomes, scores, norm=norm, convention=convention) for convention in CONVENTIONS
            )
            assert abs(paper - program) > 1e-4

    def test_with_one_bandwidth_and_no_gap_only_the_root_is_between_them(self):
        outcomes, scores = random_problem(500, seed=6)
        paper, program = (
            positive(outcomes, scores, norm=2, bandwidth=0.08, convention=convention)
            for convention in CONVENTIONS
        )
        assert program == pytest.approx(paper**2, rel=1e-3)

    def test_it_has_a_value_where_the_program_fails(self):
        """No event, one event, or events without spread leave the program no bandwidth."""
        for outcomes in ([0, 0, 0], [1, 0, 0], [1, 1, 0]):
            assert np.isfinite(positive(outcomes, [0.4, 0.4, 0.6], convention="published"))
        assert np.isfinite(kde_ece([1], [[0.0, 1.0]], convention="published"))


class TestInputs:
    @pytest.mark.parametrize("convention", CONVENTIONS)
    def test_only_ratios_of_weights_matter(self, convention):
        outcomes, scores = random_problem(80, seed=8)
        weights = np.random.default_rng(9).random(80) + 0.1
        expected = positive(outcomes, scores, sample_weight=weights, convention=convention)
        for factor in (1e-9, 3.0, 1e9):
            value = positive(outcomes, scores, sample_weight=factor * weights, convention=convention)
            assert value == pytest.approx(expected, rel=1e-9)
        equal = positive(outcomes, scores, sample_weight=np.full(80, 7.0), convention=convention)
        assert equal == pytest.approx(positive(outcomes, scores, convention=convention), rel=1e-6)

    def test_at_a_given_bandwidth_weights_are_counts(self):
        outcomes, scores = random_problem(80, seed=10)
        counts = np.random.default_rng(11).integers(0, 4, 80)
        repeated = positive(np.repeat(outcomes, counts), np.repeat(scores, counts), bandwidth=0.05)
        assert positive(outcomes, scores, sample_weight=counts, bandwidth=0.05) == pytest.approx(
            repeated, rel=1e-9
        )

    def test_the_bandwidth_goes_by_the_effective_number_of_rows(self):
        """Weights 1 and 3: (sum w)^2 / sum w^2 = 16 / 10, and a spread of sqrt(3)/4 between 0 and 1."""
        weights = np.array([1.0, 3.0])
        assert effective_rows(2, weights) == pytest.approx(1.6)
        assert standard_deviation(np.array([0.0, 1.0]), weights) == pytest.approx(sqrt(3) / 4)
        assert rule_of_thumb(np.array([0.0, 1.0]), weights) == pytest.approx(1.06 * sqrt(3) / 4 * 1.6**-0.2)

    def test_float32_gives_the_value_of_the_same_numbers_in_float64(self):
        generator = np.random.default_rng(7)
        probabilities = generator.dirichlet(np.full(4, 0.2), 500).astype(np.float32)
        labels = generator.integers(0, 4, 500)
        for kind in ("confidence", "classwise"):
            in_double = kde_ece(labels, probabilities.astype(np.float64), kind=kind)
            assert kde_ece(labels, probabilities, kind=kind) == pytest.approx(in_double, abs=1e-6)

    def test_saturated_logits(self):
        predictions = Predictions.from_logits(np.array([[200.0, 0.0], [0.0, 200.0]] * 5, dtype=np.float32))
        assert kde_ece([0, 1] * 5, predictions) < SMALLEST
        assert kde_ece([1, 0] * 5, predictions) == pytest.approx(1.0, abs=SMALLEST)

    def test_many_classes(self):
        generator = np.random.default_rng(12)
        probabilities = generator.dirichlet(np.full(200, 0.1), 300)
        value = kde_ece(generator.integers(0, 200, 300), probabilities, kind="classwise", norm=2)
        assert type(value) is float
        assert 0 < value < 0.1

    def test_memory_is_a_few_columns(self):
        generator = np.random.default_rng(13)
        scores = generator.random(400_000)
        outcomes = (generator.random(400_000) < scores).astype(int)
        predictions = Predictions.parse(scores)
        tracemalloc.start()
        value = kde_ece(outcomes, predictions)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert value < 0.02
        assert peak < 12 * 8 * 400_000 + 2e7

    @pytest.mark.parametrize("bandwidth", [0, -1, 1e-5, 1.5, np.nan, "wide"])
    def test_a_bandwidth_must_be_a_number_that_the_grid_resolves(self, bandwidth):
        with pytest.raises(ParameterError, match="bandwidth must be from"):
            kde_ece([0, 1], [0.2, 0.7], bandwidth=bandwidth)

    @pytest.mark.parametrize("norm", [0.5, "max", np.nan, np.inf, None])
    def test_the_norm_must_be_a_number_of_at_least_one(self, norm):
        with pytest.raises(ParameterError, match="norm must be"):
            kde_ece([0, 1], [0.2, 0.7], norm=norm)

    def test_kind_and_convention_must_be_known(self):
        with pytest.raises(ParameterError, match="kind must be"):
            kde_ece([0, 1], [0.2, 0.7], kind="all")
        with pytest.raises(ParameterError, match="convention must be"):
            kde_ece([0, 1], [0.2, 0.7], convention="authors")
