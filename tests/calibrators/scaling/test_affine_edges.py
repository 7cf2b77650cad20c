"""Where affine fits and their searches could go wrong quietly: weights, ties, separable rows, floors, statuses."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import ShuffleSplit

from calibrant import DirichletCalibration, MatrixScaling, Predictions, TemperatureScaling, VectorScaling
from calibrant.calibrators.scaling.affine import SEVERITY
from calibrant.calibrators.scaling.dirichlet import LinearParameters
from calibrant.errors import ConvergenceWarning
from calibrant.solvers import Status


def a_task(n_rows=300, n_classes=3, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(n_classes, 0.8), size=n_rows)
    return p, (0.6 * np.log(p) + generator.gumbel(size=p.shape)).argmax(axis=1)


@pytest.mark.parametrize("scale", [1 / 300, 0.5, 2.0, 20.0])
@pytest.mark.parametrize("penalty", ["odir", "l2"])
def test_equal_weights_of_any_size_leave_the_search_as_it_is_or_nearly(penalty, scale):
    """Below one exactly; above one the natural strengths move with the weight, as if rows were repeated."""
    p, y = a_task()
    plain = DirichletCalibration(penalty).fit(p, y)
    weighted = DirichletCalibration(penalty).fit(p, y, np.full(len(y), scale))
    assert weighted.search_["loss"].min() == pytest.approx(plain.search_["loss"].min(), abs=0.01)
    if scale < 1:
        np.testing.assert_allclose(weighted.predict_proba(p), plain.predict_proba(p), atol=1e-7)


@pytest.mark.parametrize("penalty", ["odir", "l2"])
def test_the_order_of_tied_rows_of_a_forest_does_not_matter(penalty):
    """Votes of few trees make many equal rows; folds keep them together."""
    X, labels = load_digits(n_class=4, return_X_y=True)
    forest = RandomForestClassifier(10, random_state=0).fit(X[:300], labels[:300])
    p, y = forest.predict_proba(X[300:600]), labels[300:600]
    order = np.random.default_rng(0).permutation(300)
    one = DirichletCalibration(penalty).fit(p, y)
    other = DirichletCalibration(penalty).fit(p[order], y[order])
    assert (one.reg_lambda_, one.reg_mu_) == (other.reg_lambda_, other.reg_mu_)
    np.testing.assert_allclose(one.predict_proba(p), other.predict_proba(p), atol=1e-6)


class TestSeparableRows:
    p, _ = a_task()
    y = p.argmax(axis=1)

    @pytest.mark.parametrize(
        "calibrator",
        [VectorScaling(), DirichletCalibration(None), DirichletCalibration("odir", 1.0, 1.0)],
        ids=["vector", "none", "odir"],
    )
    def test_a_free_fit_says_that_it_runs_away(self, calibrator):
        with pytest.warns(ConvergenceWarning, match="grow without end"):
            calibrator.fit(self.p, self.y)
        assert calibrator.solution_.status is Status.RUNNING_AWAY

    def test_l2_shrinks_to_the_identity_where_no_temperature_is_best(self):
        """The best inverse temperature is infinite; a strong penalty must not lead there."""
        fitted = DirichletCalibration("l2", 1e6, 1e6).fit(self.p, self.y)
        np.testing.assert_allclose(fitted.weights_, np.eye(3), atol=1e-3)

    def test_one_separable_class_is_enough(self):
        generator = np.random.default_rng(1)
        p, y = a_task(seed=2)
        p = p[y != 2]
        p = np.vstack([p, generator.dirichlet([0.01, 0.01, 5.0], size=20)])
        y = np.concatenate([y[y != 2], np.full(20, 2)])
        sure = p[:, 2] > 0.5
        keep = sure == (y == 2)
        with pytest.warns(ConvergenceWarning, match="grow without end"):
            VectorScaling().fit(p[keep], y[keep])


class TestFloor:
    row = np.array([[0.5, 0.5, 0.0]])
    company = np.array([[0.5, 0.5, 0.0], [0.5, 0.5 - 1e-5, 1e-5]])

    def test_a_map_fitted_on_logits_treats_a_zero_alone_as_in_company(self):
        p, y = a_task()
        fitted = TemperatureScaling().fit(Predictions.from_logits(np.log(p)), y)
        np.testing.assert_array_equal(
            fitted.predict_proba(self.row)[0], fitted.predict_proba(self.company)[0]
        )

    def test_so_does_a_map_of_given_parameters(self):
        given = DirichletCalibration.from_parameters(LinearParameters(0.5 * np.eye(3), np.zeros(3)))
        np.testing.assert_array_equal(given.predict_proba(self.row)[0], given.predict_proba(self.company)[0])
        assert given.predict_proba(self.row)[0, 2] < 1e-18


def test_the_worst_fold_gives_the_status():
    assert set(SEVERITY) == set(Status)
    assert SEVERITY.index(Status.IDENTITY) < SEVERITY.index(Status.RUNNING_AWAY)
    p, y = a_task()
    fitted = DirichletCalibration("l2", [10.0], None, center="zero", cv=3).fit(p, y)
    same = np.allclose(fitted.predict_proba(p), p)
    assert (fitted.solution_.status is Status.IDENTITY) == same


def test_the_averaged_map_is_judged_without_underflow_in_float32():
    """A few impossible rows: their probability underflows, their logarithm does not."""
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(2000, 3)).astype(np.float32)
    labels = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    logits[:3, 0], labels[:3] = 400, 1
    single = MatrixScaling("l2", [1e6], [1e6], cv=3).fit(Predictions.from_logits(logits), labels)
    double = MatrixScaling("l2", [1e6], [1e6], cv=3).fit(
        Predictions.from_logits(logits.astype(float)), labels
    )
    assert single.solution_.status == double.solution_.status
    assert single.solution_.loss == pytest.approx(double.solution_.loss, rel=1e-4)


def test_interpretation_points_of_averaged_models_are_those_of_the_average():
    p, y = a_task(n_rows=120)
    fitted = DirichletCalibration(cv=3).fit(p, y)
    points, images = fitted.interpretation_points(0.01)
    np.testing.assert_allclose(images, fitted.predict_proba(points), atol=1e-12)


def test_a_single_split_has_no_standard_error():
    p, y = a_task()
    fitted = DirichletCalibration(reg_lambda=[0.1], reg_mu=[0.1], cv=ShuffleSplit(1, random_state=0)).fit(
        p, y
    )
    assert np.isnan(fitted.search_["standard_error"]).all()


def test_standard_errors_are_those_of_a_mean_over_folds():
    p, y = a_task(n_rows=299)
    fitted = DirichletCalibration(reg_lambda=[0.1, 1.0], reg_mu=[0.1], cv=4).fit(p, y)
    assert (fitted.search_["standard_error"] > 0).all()
    assert (fitted.search_["standard_error"] < 0.2).all()


def test_zeroed_maps_carry_no_stale_account_of_the_fit():
    p, y = a_task()
    zeroed = MatrixScaling(reg_lambda=0.1, reg_mu=0.1).fit(p, y).zeroed()
    assert not hasattr(zeroed, "solution_")
    assert zeroed.reg_lambda_ == 0.1
