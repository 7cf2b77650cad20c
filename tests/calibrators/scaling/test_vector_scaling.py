"""Vector scaling: optimality, its place between temperature and matrix scaling, and raw logits."""

import numpy as np
import pytest

from calibrant import MatrixScaling, Predictions, TemperatureScaling, VectorScaling

LOGITS = np.random.default_rng(0).normal(scale=2, size=(300, 3))
LABELS = (LOGITS * [1.0, 0.4, 0.7] + [0.5, 0, -0.5] + np.random.default_rng(1).gumbel(size=(300, 3))).argmax(
    axis=1
)
DATA = Predictions.from_logits(LOGITS)


def test_mean_prediction_is_the_share_of_each_class():
    """The derivative with respect to an intercept is mean(q_k) - share(k), zero at the optimum."""
    fitted = VectorScaling().fit(DATA, LABELS)
    shares = np.bincount(LABELS, minlength=3) / 300
    np.testing.assert_allclose(fitted.predict_proba(DATA).mean(axis=0), shares, atol=1e-7)


def test_the_score_equations_hold():
    """The derivative with respect to a weight is mean((q_k - y_k) z_k), zero at the optimum."""
    residual = VectorScaling().fit(DATA, LABELS).predict_proba(DATA) - np.eye(3)[LABELS]
    np.testing.assert_allclose((residual * LOGITS).mean(axis=0), 0, atol=1e-6)


def test_loss_lies_between_matrix_and_temperature_scaling():
    losses = [
        calibrator.fit(DATA, LABELS).solution_.loss
        for calibrator in (
            MatrixScaling(penalty=None),
            VectorScaling(),
            VectorScaling(bias=False),
            TemperatureScaling(),
        )
    ]
    assert losses == sorted(losses)


def test_the_truth_is_recovered_from_many_rows():
    """Labels drawn from softmax(w z + b) itself; n = 200,000 gives about two digits."""
    generator = np.random.default_rng(5)
    logits = generator.normal(scale=2, size=(200_000, 3))
    weights, intercept = np.array([0.5, 1.0, 1.5]), np.array([0.4, -0.1, -0.3])
    labels = (logits * weights + intercept + generator.gumbel(size=logits.shape)).argmax(axis=1)
    fitted = VectorScaling().fit(Predictions.from_logits(logits), labels)
    np.testing.assert_allclose(fitted.weights_, weights, atol=0.02)
    np.testing.assert_allclose(fitted.intercept_, intercept, atol=0.02)


def test_the_intercepts_sum_to_zero():
    assert VectorScaling().fit(DATA, LABELS).intercept_.sum() == pytest.approx(0, abs=1e-12)
    np.testing.assert_array_equal(VectorScaling(bias=False).fit(DATA, LABELS).intercept_, np.zeros(3))


def test_raw_logits_matter():
    """Shifting a row changes w z by a different amount for each class, unlike for temperature scaling."""
    shifted = Predictions.from_logits(LOGITS + np.arange(300)[:, np.newaxis] % 7)
    plain, moved = (VectorScaling().fit(data, LABELS) for data in (DATA, shifted))
    assert not np.allclose(plain.weights_, moved.weights_, rtol=0.01)


@pytest.mark.parametrize("n_classes", [400])
def test_many_classes_use_the_cheap_curvature(n_classes):
    """More than 600 parameters: solved by conjugate gradients, still to the optimum."""
    generator = np.random.default_rng(3)
    logits = generator.normal(scale=3, size=(3000, n_classes))
    labels = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    labels[:n_classes] = np.arange(n_classes)
    fitted = VectorScaling().fit(Predictions.from_logits(logits), labels)
    residual = fitted.predict_proba(Predictions.from_logits(logits)) - np.eye(n_classes)[labels]
    assert fitted.solution_.converged
    assert np.abs(residual.mean(axis=0)).max() < 1e-5
