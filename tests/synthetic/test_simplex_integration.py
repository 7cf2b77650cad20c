"""Integration rules against the moments of the Dirichlet distribution and other closed forms."""

from functools import cache
from math import gamma, prod

import numpy as np
import pytest
from scipy.special import digamma

from calibrant.errors import ParameterError
from calibrant.synthetic import GaussJacobi, ScrambledSobol, dirichlet_mean


class RememberedSobol(ScrambledSobol):
    """Places its nodes once for all tests."""

    replicates = cache(ScrambledSobol.replicates)


CONCENTRATIONS = [(0.5, 0.5, 0.5), (0.5, 1.0), (2.0, 0.3, 1.0, 0.7)]


def moment(concentration, powers) -> float:
    """Return E prod p_k^m_k = Gamma(A) / Gamma(A + M) prod Gamma(a_k + m_k) / Gamma(a_k)."""
    total = sum(concentration)
    ratio = gamma(total) / gamma(total + sum(powers))
    return ratio * prod(gamma(a + m) / gamma(a) for a, m in zip(concentration, powers, strict=True))


def monomial(powers):
    return lambda points: np.prod(points ** np.array(powers), axis=1)


@pytest.mark.parametrize("concentration", CONCENTRATIONS, ids=str)
@pytest.mark.parametrize("order", [2, 3, 5])
def test_gauss_jacobi_is_exact_up_to_twice_its_order(concentration, order):
    n_classes = len(concentration)
    nodes = GaussJacobi(order).replicates(concentration)[0]
    for k in range(n_classes):
        for degree in range(2 * order):
            powers = [0] * n_classes
            powers[k] = degree // 2
            powers[(k + 1) % n_classes] = degree - degree // 2
            assert nodes.weights @ monomial(powers)(nodes.points) == pytest.approx(
                moment(concentration, powers), rel=1e-12
            )


def test_gauss_jacobi_is_not_exact_beyond():
    """A Gauss rule of n nodes errs in the moment 2n: the weighted square of its own polynomial has none."""
    nodes = GaussJacobi(3).replicates((0.5, 1.0))[0]
    assert nodes.weights @ nodes.points[:, 0] ** 6 < moment((0.5, 1.0), (6, 0)) * (1 - 1e-6)


@pytest.mark.parametrize("rule", [GaussJacobi(6), ScrambledSobol(2**10)], ids=str)
@pytest.mark.parametrize("concentration", CONCENTRATIONS, ids=str)
def test_nodes_lie_on_the_simplex(rule, concentration):
    for nodes in rule.replicates(concentration):
        assert nodes.points.shape == (len(nodes.weights), len(concentration))
        assert nodes.points.min() > 0
        assert nodes.points.sum(axis=1) == pytest.approx(1.0)
        assert nodes.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("concentration", [*CONCENTRATIONS, (0.2,) * 10], ids=str)
@pytest.mark.parametrize("degree", [1, 2, 5])
def test_sobol_points_find_moments_within_their_error(concentration, degree):
    powers = (degree, 1) + (0,) * (len(concentration) - 2)
    value, error = dirichlet_mean(monomial(powers), concentration, RememberedSobol(2**14))
    exact = moment(concentration, powers)
    assert value == pytest.approx(exact, abs=5 * error + 1e-12)
    assert error < 0.01 * exact


def test_sobol_points_beat_random_ones():
    """At 2^14 nodes random points have a standard error of sd / 128."""
    value, error = dirichlet_mean(lambda p: p[:, 0], (0.5, 0.5, 0.5), ScrambledSobol(2**14))
    spread = np.sqrt(moment((0.5,) * 3, (2, 0, 0)) - 1 / 9)
    assert error < spread / 128 / 100
    assert value == pytest.approx(1 / 3, abs=5 * error)


@pytest.mark.parametrize("rule", [GaussJacobi(64), ScrambledSobol(2**14)], ids=str)
def test_expected_logarithm(rule):
    """E log p_k = digamma(a_k) - digamma(A), a singular but integrable function."""
    value, error = dirichlet_mean(lambda p: np.log(p[:, 2]), (0.5, 0.8, 1.2), rule)
    assert value == pytest.approx(digamma(1.2) - digamma(2.5), abs=max(5 * error, 1e-4))
    assert error < 0.01


def test_tiny_shares_keep_their_digits():
    """For a concentration of 0.05 the smallest shares are far below the spacing of floats at 1; the last class too."""
    points = np.vstack([nodes.points for nodes in ScrambledSobol(2**12).replicates((0.05, 0.05))])
    smallest = points.min(axis=0)
    assert 0 < smallest[1] < 1e-60
    assert 0 < smallest[0] < 1e-60


def test_the_largest_of_three_uniform_shares():
    """E max = (1 + 1/2 + 1/3) / 3; a kink keeps the Gauss rule from being as good."""
    exact = 11 / 18
    sobol, _ = dirichlet_mean(lambda p: p.max(axis=1), (1.0,) * 3)
    gauss, gauss_error = dirichlet_mean(lambda p: p.max(axis=1), (1.0,) * 3, GaussJacobi(40))
    assert sobol == pytest.approx(exact, abs=2e-6)
    assert gauss == pytest.approx(exact, abs=2e-3)
    assert abs(gauss - exact) < 10 * gauss_error


def test_the_same_seed_gives_the_same_nodes_and_replicates_differ():
    first, again = (ScrambledSobol(64, 2, random_state=5).replicates((1.0, 1.0)) for _ in range(2))
    other = ScrambledSobol(64, 2, random_state=6).replicates((1.0, 1.0))
    assert (first[0].points == again[0].points).all()
    assert (first[0].points != first[1].points).any()
    assert (first[0].points != other[0].points).any()


def test_the_error_of_a_jump_is_not_lost_by_chance():
    """P(p_1 < z) is z for uniform shares; two rules may count the same share of nodes, and even ones do at 1/2."""
    for order in (24, 36):
        for cut in np.linspace(0.03, 0.97, 95):
            value, error = dirichlet_mean(lambda p, z=cut: p[:, 0] < z, (1.0, 1.0), GaussJacobi(order))
            assert abs(value - cut) <= 2.5 * error, (order, cut)


@pytest.mark.parametrize(("n_classes", "expected"), [(2, 2**17), (150, 2**14)])
def test_the_number_of_nodes_is_bounded_by_memory(n_classes, expected, monkeypatch):
    """2^22 numbers for 150 classes are 27,962 nodes, rounded down to a power of two; where they lie does not matter."""
    monkeypatch.setattr("calibrant.synthetic.integration.betaincinv", lambda *arguments: arguments[2])
    replicates = ScrambledSobol().replicates((0.5,) * n_classes)
    total = sum(len(nodes.weights) for nodes in replicates)
    assert total == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussJacobi(1),
        lambda: GaussJacobi(2.5),
        lambda: GaussJacobi(20).replicates((1.0,) * 10),
        lambda: ScrambledSobol(0),
        lambda: ScrambledSobol("many"),
        lambda: ScrambledSobol(n_replicates=1),
        lambda: ScrambledSobol(random_state=-1),
        lambda: dirichlet_mean(lambda p: p[:, 0], (1.0, 1.0), 5),
    ],
)
def test_rules_without_a_meaning_are_refused(make):
    with pytest.raises(ParameterError):
        make()
