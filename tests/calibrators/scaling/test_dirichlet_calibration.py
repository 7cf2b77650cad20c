"""Dirichlet calibration: Theorem 1, Proposition 1, interpretation points, penalties and the search."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import dirichlet
from sklearn.model_selection import KFold

from calibrant import DirichletCalibration, MatrixScaling, Predictions, TemperatureScaling, VectorScaling
from calibrant.calibrators.scaling.dirichlet import (
    CanonicalParameters,
    GenerativeParameters,
    LinearParameters,
)
from calibrant.errors import ParameterError

K = 3
weights = arrays(float, (K, K), elements=st.floats(-3, 3))
intercepts = arrays(float, K, elements=st.floats(-3, 3))
concentrations = arrays(float, (K, K), elements=st.floats(0.05, 20))
priors = arrays(float, K, elements=st.floats(0.01, 1)).map(lambda row: row / row.sum())
rows = arrays(float, (5, K), elements=st.floats(1e-6, 1)).map(lambda p: p / p.sum(axis=1, keepdims=True))


def a_task(n_rows=300, n_classes=3, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(n_classes, 0.8), size=n_rows)
    bent = np.log(p) * np.linspace(0.4, 1.1, n_classes) + 0.2 * np.roll(np.log(p), 1, axis=1)
    return p, (bent + generator.gumbel(size=p.shape)).argmax(axis=1)


class TestThreeParametrisations:
    """Theorem 1 of Kull et al. 2019: the generative, linear and canonical families are the same."""

    @given(weights=weights, intercept=intercepts, q=rows)
    def test_linear_to_the_others(self, weights, intercept, q):
        linear = LinearParameters(weights, intercept)
        expected = linear.map(q)
        np.testing.assert_allclose(linear.canonical().map(q), expected, atol=1e-10)
        np.testing.assert_allclose(linear.generative().map(q), expected, atol=1e-9)

    @given(alpha=concentrations, pi=priors, q=rows)
    def test_generative_to_the_others(self, alpha, pi, q):
        generative = GenerativeParameters(alpha, pi)
        expected = generative.map(q)
        np.testing.assert_allclose(generative.linear().map(q), expected, atol=1e-9)
        np.testing.assert_allclose(generative.canonical().map(q), expected, atol=1e-9)

    @given(alpha=arrays(float, (K, K), elements=st.floats(0.3, 8)), pi=priors)
    def test_generative_map_is_bayes_rule_with_scipy_densities(self, alpha, pi):
        q = np.array([0.5, 0.3, 0.2])
        joint = np.array([pi[k] * dirichlet.pdf(q, alpha[k]) for k in range(K)])
        np.testing.assert_allclose(
            GenerativeParameters(alpha, pi).map(q[np.newaxis])[0], joint / joint.sum(), rtol=1e-9
        )

    @given(weights=weights, intercept=intercepts)
    def test_canonical_parameters_are_what_the_paper_asks(self, weights, intercept):
        matrix, center = LinearParameters(weights, intercept).canonical()
        assert (matrix >= 0).all()
        np.testing.assert_array_equal(matrix.min(axis=0), np.zeros(K))
        assert center.sum() == pytest.approx(1)
        uniform = np.full((1, K), 1 / K)
        np.testing.assert_allclose(LinearParameters(weights, intercept).map(uniform)[0], center, atol=1e-12)

    @given(weights=weights, intercept=intercepts, shift=intercepts, constant=st.floats(-3, 3))
    def test_canonical_parameters_are_unique(self, weights, intercept, shift, constant):
        """Adding a constant to a column of W, or to b, is the same map, so it must have the same (A, c)."""
        one = LinearParameters(weights, intercept).canonical()
        other = LinearParameters(weights + shift, intercept + constant).canonical()
        np.testing.assert_allclose(one.matrix, other.matrix, atol=1e-12)
        np.testing.assert_allclose(one.center, other.center, atol=1e-10)

    @given(weights=weights, intercept=intercepts)
    def test_going_round_returns_the_canonical_parameters(self, weights, intercept):
        start = LinearParameters(weights, intercept).canonical()
        for end in (start.linear().canonical(), start.generative().canonical()):
            np.testing.assert_allclose(end.matrix, start.matrix, atol=1e-10)
            np.testing.assert_allclose(end.center, start.center, atol=1e-9)

    def test_impossible_densities_are_refused(self):
        with pytest.raises(ParameterError, match="must be positive"):
            GenerativeParameters(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([0.5, 0.5])).linear()


@given(temperature=st.floats(0.1, 10), q=rows)
def test_temperature_scaling_is_a_dirichlet_map(temperature, q):
    """Proposition 1: softmax(z / t) = the linear map with W = I / t, b = 0."""
    logits = np.log(q) + 5.0
    scaled = np.exp(logits / temperature) / np.exp(logits / temperature).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        LinearParameters(np.eye(K) / temperature, np.zeros(K)).map(q), scaled, atol=1e-12
    )


def test_two_class_maps_have_the_form_of_beta_calibration():
    """log(q1 / q0) = a log p1 - b log p0 + c with a = w11 - w01, b = w00 - w10, c = b1 - b0."""
    p, y = a_task(n_classes=2)
    fitted = DirichletCalibration(penalty=None).fit(p, y)
    w, b = fitted.weights_, fitted.intercept_
    beta = (w[1, 1] - w[0, 1]) * np.log(p[:, 1]) - (w[0, 0] - w[1, 0]) * np.log(p[:, 0]) + b[1] - b[0]
    np.testing.assert_allclose(fitted.predict_proba(p)[:, 1], 1 / (1 + np.exp(-beta)), atol=1e-12)


class TestInterpretationPoints:
    fitted = DirichletCalibration(reg_lambda=0.01, reg_mu=0.01).fit(*a_task())

    def test_exact_images_are_those_of_the_map(self):
        points, images = self.fitted.interpretation_points(0.01)
        np.testing.assert_allclose(points.sum(axis=1), 1)
        np.testing.assert_allclose(images, self.fitted.predict_proba(points), atol=1e-12)
        np.testing.assert_allclose(images[-1], self.fitted.canonical().center, atol=1e-12)

    def test_limit_form_is_the_papers_formula(self):
        matrix, _ = self.fitted.canonical()
        _, images = self.fitted.interpretation_points(0.01, limit=True)
        for j in range(K):
            np.testing.assert_allclose(images[j], 0.01 ** matrix[:, j] / (0.01 ** matrix[:, j]).sum())

    def test_both_forms_agree_where_the_dropped_factors_are_equal(self):
        """For A = a I and a uniform c the dropped factor differs only at class j itself, and vanishes with epsilon."""
        calibrator = DirichletCalibration.from_parameters(
            CanonicalParameters(2 * np.eye(K), np.full(K, 1 / K))
        )
        for epsilon in (1e-3, 1e-6):
            _, exact = calibrator.interpretation_points(epsilon)
            _, limit = calibrator.interpretation_points(epsilon, limit=True)
            np.testing.assert_allclose(exact, limit, atol=10 * epsilon)

    def test_an_epsilon_outside_is_refused(self):
        with pytest.raises(ParameterError, match="epsilon"):
            self.fitted.interpretation_points(0.0)


class TestFromParameters:
    @given(weights=weights, intercept=intercepts, q=rows)
    def test_the_calibrator_applies_the_given_map(self, weights, intercept, q):
        linear = LinearParameters(weights, intercept)
        for parameters in (linear, linear.canonical(), linear.generative()):
            calibrator = DirichletCalibration.from_parameters(parameters)
            np.testing.assert_allclose(calibrator.predict_proba(q), linear.map(q), atol=1e-9)

    def test_shapes_that_do_not_fit_are_refused(self):
        with pytest.raises(ParameterError, match="shape"):
            DirichletCalibration.from_parameters(LinearParameters(np.eye(3), np.zeros(2)))

    def test_class_names_are_kept(self):
        linear = LinearParameters(np.eye(2), np.zeros(2))
        assert DirichletCalibration.from_parameters(linear, ["no", "yes"]).predict([[0.2, 0.8]]).tolist() == [
            "yes"
        ]


class TestPenalties:
    p, y = a_task()

    def test_odir_is_the_papers_formula(self):
        fitted = DirichletCalibration(reg_lambda=0.3, reg_mu=0.7).fit(self.p, self.y)
        w, b, q = fitted.weights_, fitted.intercept_, fitted.predict_proba(self.p)
        log_loss = -np.mean(np.log(q[np.arange(len(q)), self.y]))
        off_diagonal = sum(w[i, j] ** 2 for i in range(K) for j in range(K) if i != j)
        value = log_loss + 0.3 * off_diagonal / (K * (K - 1)) + 0.7 * (b**2).sum() / K
        assert fitted.solution_.value == pytest.approx(value, rel=1e-12)
        assert fitted.solution_.loss == pytest.approx(log_loss, rel=1e-12)

    @pytest.mark.parametrize(("center", "middle"), [("zero", 0.0), ("identity", 1.0), ("temperature", None)])
    def test_l2_is_the_sum_of_squares_from_its_center(self, center, middle):
        fitted = DirichletCalibration("l2", 1e-3, 2e-3, center=center).fit(self.p, self.y)
        if middle is None:
            middle = TemperatureScaling().fit(self.p, self.y).inverse_temperature_
        squares = ((fitted.weights_ - middle * np.eye(K)) ** 2).sum()
        value = fitted.solution_.loss + 1e-3 * squares + 2e-3 * (fitted.intercept_**2).sum()
        assert fitted.solution_.value == pytest.approx(value, rel=1e-9)

    def test_a_strong_l2_penalty_leaves_temperature_scaling(self):
        fitted = DirichletCalibration("l2", 1e9, 1e9).fit(self.p, self.y)
        expected = TemperatureScaling().fit(self.p, self.y).predict_proba(self.p)
        np.testing.assert_allclose(fitted.predict_proba(self.p), expected, atol=1e-6)

    def test_a_strong_odir_penalty_leaves_the_diagonal(self):
        """Then it is vector scaling without intercepts on log-probabilities."""
        fitted = DirichletCalibration("odir", 1e9, 1e9).fit(self.p, self.y)
        expected = VectorScaling(bias=False).fit(self.p, self.y).predict_proba(self.p)
        np.testing.assert_allclose(fitted.predict_proba(self.p), expected, atol=1e-5)

    def test_matrix_scaling_of_probabilities_is_the_same_model(self):
        for penalty in ("odir", "l2", None):
            one, other = (
                kind(penalty, 0.1, 0.1).fit(self.p, self.y) for kind in (DirichletCalibration, MatrixScaling)
            )
            np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-8)

    def test_matrix_scaling_uses_raw_logits_and_dirichlet_does_not(self):
        shift = 3 * np.random.default_rng(1).normal(size=(len(self.p), 1))
        raw = Predictions.from_logits(np.log(self.p) + shift)
        one, other = (
            kind("odir", 0.1, 0.1).fit(raw, self.y) for kind in (DirichletCalibration, MatrixScaling)
        )
        plain = DirichletCalibration("odir", 0.1, 0.1).fit(self.p, self.y)
        np.testing.assert_allclose(one.weights_, plain.weights_, atol=1e-6)
        assert not np.allclose(other.weights_, plain.weights_, atol=0.01)


class TestZeroed:
    p, y = a_task()

    def test_diagonal_and_intercept_stay(self):
        fitted = MatrixScaling(reg_lambda=0.1, reg_mu=0.1).fit(self.p, self.y)
        zeroed = fitted.zeroed()
        np.testing.assert_array_equal(zeroed.weights_, np.diag(np.diag(fitted.weights_)))
        np.testing.assert_array_equal(zeroed.intercept_, fitted.intercept_)
        expected = np.log(self.p) * np.diag(fitted.weights_) + fitted.intercept_
        expected = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(zeroed.predict_proba(self.p), expected, atol=1e-12)

    def test_every_averaged_model_is_treated(self):
        fitted = MatrixScaling(reg_lambda=[0.1], reg_mu=[0.1], cv=3).fit(self.p, self.y)
        assert fitted.zeroed().fold_weights_.shape == (3, K, K)
        assert np.count_nonzero(fitted.zeroed().fold_weights_) == 3 * K

    def test_the_original_is_left_alone(self):
        fitted = MatrixScaling(reg_lambda=0.1, reg_mu=0.1).fit(self.p, self.y)
        before = fitted.weights_.copy()
        fitted.zeroed()
        np.testing.assert_array_equal(fitted.weights_, before)


class TestSearch:
    p, y = a_task(n_rows=240)

    def test_a_grid_is_judged_by_held_out_loss(self):
        """The table of the search equals a hand-written loop over folds and strengths."""
        cv = KFold(3, shuffle=True, random_state=0)
        grid = {"reg_lambda": [0.01, 1.0], "reg_mu": [0.1, 10.0]}
        fitted = DirichletCalibration(**grid, cv=cv).fit(self.p, self.y)
        losses = {}
        for reg_lambda in grid["reg_lambda"]:
            for reg_mu in grid["reg_mu"]:
                held_out = np.empty(len(self.y))
                for train, test in cv.split(self.p):
                    single = DirichletCalibration(reg_lambda=reg_lambda, reg_mu=reg_mu).fit(
                        self.p[train], self.y[train]
                    )
                    held_out[test] = -np.log(
                        single.predict_proba(self.p[test])[np.arange(len(test)), self.y[test]]
                    )
                losses[reg_lambda, reg_mu] = held_out.mean()
        found = dict(
            zip(
                zip(fitted.search_["reg_lambda"], fitted.search_["reg_mu"], strict=True),
                fitted.search_["loss"],
                strict=True,
            )
        )
        assert found.keys() == losses.keys()
        for strengths, loss in losses.items():
            assert found[strengths] == pytest.approx(loss, abs=5e-5)
        assert (fitted.reg_lambda_, fitted.reg_mu_) == min(losses, key=losses.get)

    def test_averaged_probabilities_are_those_of_the_fold_models(self):
        cv = KFold(3)
        fitted = DirichletCalibration(reg_lambda=[0.1], reg_mu=[0.2], cv=cv).fit(self.p, self.y)
        singles = [
            DirichletCalibration(reg_lambda=0.1, reg_mu=0.2)
            .fit(self.p[train], self.y[train])
            .predict_proba(self.p)
            for train, _ in cv.split(self.p)
        ]
        np.testing.assert_allclose(fitted.predict_proba(self.p), np.mean(singles, axis=0), atol=1e-6)

    def test_refitting_uses_all_rows_with_the_chosen_strengths(self):
        fitted = DirichletCalibration(average_folds=False, cv=3).fit(self.p, self.y)
        single = DirichletCalibration(reg_lambda=fitted.reg_lambda_, reg_mu=fitted.reg_mu_).fit(
            self.p, self.y
        )
        np.testing.assert_allclose(fitted.predict_proba(self.p), single.predict_proba(self.p), atol=1e-6)
        assert fitted.fold_weights_.shape == (1, K, K)

    def test_the_automatic_choice_is_no_worse_than_its_neighbours(self):
        fitted = DirichletCalibration(cv=3).fit(self.p, self.y)
        neighbours = [
            (fitted.reg_lambda_ * a, fitted.reg_mu_ * b) for a, b in ((10, 1), (0.1, 1), (1, 10), (1, 0.1))
        ]
        best = fitted.search_["loss"].min()
        for reg_lambda, reg_mu in neighbours:
            near = DirichletCalibration(reg_lambda=[reg_lambda], reg_mu=[reg_mu], cv=3).fit(self.p, self.y)
            assert near.search_["loss"][0] > best - 1e-4

    def test_one_strength_can_be_given_and_the_other_searched(self):
        fitted = DirichletCalibration(reg_lambda=0.5, reg_mu="auto", cv=3).fit(self.p, self.y)
        assert fitted.reg_lambda_ == 0.5
        assert set(fitted.search_["reg_lambda"]) == {0.5}
        tied = DirichletCalibration("l2", "auto", None, cv=3).fit(self.p, self.y)
        assert tied.reg_lambda_ == tied.reg_mu_

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"penalty": "lasso"}, "penalty must be"),
            ({"reg_lambda": -1.0}, "reg_lambda must be"),
            ({"reg_mu": "much"}, "reg_mu must be"),
            ({"reg_lambda": []}, "reg_lambda must be"),
            ({"reg_lambda": "auto", "reg_mu": [1.0, 2.0]}, "not 'auto' and a grid"),
            ({"center": "origin"}, "center must be"),
            ({"cv": 1}, "cv must be a whole number of at least 2"),
        ],
    )
    def test_parameters_without_meaning_are_refused(self, parameters, message):
        with pytest.raises(ParameterError, match=message):
            DirichletCalibration(**parameters).fit(self.p, self.y)
