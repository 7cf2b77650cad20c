"""Dirichlet calibration and matrix scaling with the strengths, the scale and the folds of the paper's program."""

from typing import Any, Literal

from sklearn.model_selection import KFold

from calibrant import DirichletCalibration, MatrixScaling, Predictions
from calibrant.calibrator import Calibrator, Traits
from calibrant.labelled_predictions import LabelledPredictions

__all__ = ["OfPlainSums"]

FOLDS = KFold(5, shuffle=True, random_state=15)
MULTIPLES = (0.25, 0.5, 1.0)
HIGHEST_POWER = 6


class OfPlainSums(Calibrator):
    r"""An affine map before the softmax whose penalty is a plain sum of squares.

    The strengths are those of the program: :math:`\lambda` is a quarter, a half or the whole of a power of ten, :math:`\mu` a
    power of ten, both from 10^-5 (10^-2 with a hundred classes) to 10^6. The pair with the lowest log-loss in five
    folds is taken, and the models of the folds are averaged.

    Parameters
    ----------
    features : {"log-probabilities", "logits"}, default="log-probabilities"
        Dirichlet calibration, or matrix scaling.
    penalty : {"odir", "l2"}, default="odir"
        :math:`\lambda \sum_{i \ne j} w_{ij}^2 + \mu \sum_j b_j^2`, which is the paper's with :math:`\lambda` divided by K(K-1)
        and :math:`\mu` by K; or :math:`\lambda (\lVert W \rVert^2 + \lVert b \rVert^2)`.
    zero_off_diagonal : bool, default=False
        Set the weights off the diagonal to zero after the fit.
    reg_lambda, reg_mu : sequence of float, optional
        Other strengths to choose from.

    Attributes
    ----------
    reg_lambda_, reg_mu_ : float
        Chosen strengths, on the scale of plain sums.
    calibrator_ : DirichletCalibration or MatrixScaling
        The fitted map.

    Examples
    --------
    >>> p, y = [[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.3, 0.1, 0.6], [0.5, 0.4, 0.1]] * 25, [0, 1, 2, 1] * 25
    >>> fitted = OfPlainSums(reg_lambda=[0.01, 1.0], reg_mu=[0.01]).fit(p, y)
    >>> fitted.reg_lambda_, round(float(fitted.calibrator_.reg_lambda_), 6)            # times K(K - 1)
    (0.01, 0.06)
    """

    traits = Traits(uses_raw_logits=True)

    def __init__(
        self,
        features: Literal["log-probabilities", "logits"] = "log-probabilities",
        penalty: Literal["odir", "l2"] = "odir",
        zero_off_diagonal: bool = False,
        reg_lambda: Any = None,
        reg_mu: Any = None,
    ) -> None:
        self.features = features
        self.penalty = penalty
        self.zero_off_diagonal = zero_off_diagonal
        self.reg_lambda = reg_lambda
        self.reg_mu = reg_mu

    def _fit(self, data: LabelledPredictions) -> None:
        n_classes = data.n_classes
        powers = [10.0**power for power in range(-2 if n_classes >= 100 else -5, HIGHEST_POWER + 1)]
        lambdas = self.reg_lambda or [multiple * power for power in powers for multiple in MULTIPLES]
        method = DirichletCalibration if self.features == "log-probabilities" else MatrixScaling
        if self.penalty == "l2":
            scales = (1, 1)
            fitted = method("l2", lambdas, None, FOLDS, center="zero")
        else:
            scales = (n_classes * (n_classes - 1), n_classes)
            mus = self.reg_mu or powers
            fitted = method(
                "odir", [each * scales[0] for each in lambdas], [each * scales[1] for each in mus], FOLDS
            )
        fitted.fit_labelled(data, warn_of_absent=False)
        self.reg_lambda_, self.reg_mu_ = fitted.reg_lambda_ / scales[0], fitted.reg_mu_ / scales[1]
        self.calibrator_ = fitted.zeroed() if self.zero_off_diagonal else fitted

    def _transform(self, predictions: Predictions) -> Predictions:
        return self.calibrator_.transform(predictions)
