"""Matrix scaling: a full affine map of the logits."""

from typing import Any, ClassVar

from calibrant.calibrator import Traits
from calibrant.calibrators.scaling.affine import AffineScaling
from calibrant.objective.family import logits

__all__ = ["MatrixScaling"]


class MatrixScaling(AffineScaling):
    r"""Matrix scaling: an affine map of the logits before the softmax.

    .. math:: \hat q = \mathrm{softmax}(W z + b), \qquad W \in \mathbb{R}^{K \times K},\ b \in \mathbb{R}^K

    with W and b minimising the mean log-loss plus a penalty :cite:`guo2017,kull2019`. The same model as
    :class:`DirichletCalibration`, but on raw logits instead of the logarithms of their softmax; raw logits carry more
    information. For predictions given as probabilities the two are equal.

    Parameters
    ----------
    penalty : {"odir", "l2", None}, default="odir"
        As in :class:`DirichletCalibration`. Without a penalty the K(K+1) parameters over-fit unless there are
        many rows per class; on 5,000 rows of 100 classes the result is far worse than no calibration.
    reg_lambda, reg_mu : float, sequence of float or "auto", default="auto"
        Regularisation strength of weights and intercepts; ``reg_mu=None`` ties it to ``reg_lambda``.
    cv : int, splitter or iterable of splits, default=5
        Folds of the search.
    average_folds : bool, default=True
        After a search, average the models of all folds, as the paper does, or refit one model to all rows.
    center : {"temperature", "identity", "zero"}, default="temperature"
        For ``"l2"``: the multiple of the identity towards which W shrinks.

    Attributes
    ----------
    weights_, intercept_ : ndarray of shape (K, K) and (K,)
        W and b; the mean over folds if models are averaged.
    fold_weights_, fold_intercepts_, reg_lambda_, reg_mu_, search_, solution_
        As in :class:`DirichletCalibration`, whose notes on cost, on batches and on the authors' programs apply here
        too.

    Examples
    --------
    >>> from calibrant import Predictions
    >>> logits = Predictions.from_logits([[2.0, 0.0, -1.0], [1.0, 2.0, 0.0], [0.0, 0.5, 3.0], [1.5, 1.0, 0.0]])
    >>> fitted = MatrixScaling("l2", reg_lambda=0.01, reg_mu=0.1).fit(logits, [0, 1, 2, 1])
    >>> fitted.predict(logits).tolist()
    [0, 1, 2, 1]
    >>> float(fitted.zeroed().weights_[0, 1])        # the diagonal alone
    0.0
    """

    traits = Traits(contains_identity=True, uses_raw_logits=True)
    _features = logits
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {
        "matrix-odir": {"penalty": "odir"},
        "matrix-l2": {"penalty": "l2"},
        "matrix": {"penalty": None},
    }
