"""Structured scaling: temperature scaling with a shared monotone map and penalised class-wise terms."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from calibrant.arrays import Vector
from calibrant.calibrator import Traits
from calibrant.calibrators.identity_check import is_worse_than_identity
from calibrant.calibrators.parametric import ParametricCalibrator
from calibrant.calibrators.structured.shared_segments import RowScales, SharedSegments
from calibrant.calibrators.structured.structured_map import ClassTerms, StructuredMap, structured_penalty
from calibrant.calibrators.structured.structured_rows import (
    TOLERANCE_OF_TRIALS,
    NearbyPath,
    StructuredRows,
    mixed_scores,
)
from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.fit_cost import FitCost
from calibrant.graph import TracedPredictions
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import warn_user
from calibrant.numerics.linear_segments import LinearSegments
from calibrant.objective import Family, RowSource
from calibrant.options import check_flag, check_not_negative, check_whole
from calibrant.solvers import Solution, Status

__all__ = ["StructuredScaling"]


@dataclass(eq=False)
class _Shared:
    """Results that the fits of a path share, set by the first of them."""

    rows: StructuredRows | None = None
    nearby: NearbyPath | None = None
    least_tolerance: float = 0.0


class StructuredScaling(ParametricCalibrator):
    r"""Structured scaling: temperature scaling with a shared monotone map and penalised class-wise terms.

    .. math:: u_k = \varphi(x_k) + \tau(\bar x)\, x_k + v_k x_k + \sum_{j \ne k} M_{kj} x_j + b_k, \qquad
              \hat q = \mathrm{softmax}(u)

    on the logarithms :math:`x = \log q` of predictions at their best temperature T, mixed with the uniform
    distribution: :math:`q = \frac{n}{n + \mu}\,\mathrm{softmax}(z / T) + \frac{\mu}{n + \mu} \frac1K`.
    Slopes :math:`s_1, \dots, s_m` of the piecewise-linear :math:`\varphi`, values :math:`t_1, \dots, t_R` of
    :math:`\tau`, a piecewise-linear function of the mean :math:`\bar x` of a row, and the class terms v, M and b
    jointly minimise

    .. math:: \frac1n \Bigl[ \sum_i \ell(u_i, y_i) + \lambda \Bigl( K \lVert v \rVert^2 + K \lVert b \rVert^2
              + K (K - 1) \lVert M \rVert_F^2 \Bigr) + \alpha \sum_j (s_j - 1)^2 + \beta \sum_j (s_{j+1} - s_j)^2
              + 4 \alpha \sum_r t_r^2 + 4 \beta \sum_r (t_{r+1} - t_r)^2 \Bigr]

    over :math:`s_j \ge 10^{-3}` and :math:`t_r \ge 0`. The problem is convex and its penalty is centred at temperature
    scaling. The penalty per row falls with the number of rows, so no search for a regularisation strength is needed.

    Without the shared map, :math:`u = x + v \circ x + M x + b` is structured vector and matrix scaling
    :cite:`berta2026matrix`. The shared map alone is order-preserving.

    Parameters
    ----------
    class_terms : {"matrix", "vector"} or None, default="matrix"
        Class-wise terms: weights of all scores and an intercept, one weight and an intercept, or none.
    shared_map : bool, default=True
        Whether :math:`\varphi` and :math:`\tau` are fitted; if not, :math:`\varphi(x) = x` and :math:`\tau = 0`.
    strength : float, default=1.0
        Regularisation strength :math:`\lambda` of the class terms. See :meth:`fit_path` for several.
    n_segments : int, default=6
        Number m of slopes of :math:`\varphi`; fewer if there are too few distinct scores. With one slope it is linear.
    row_knots : int, default=4
        Number R of knots of :math:`\tau`, at least two; 0 for :math:`\tau = 0`.
    slope_penalty : float, default=1.0
        Regularisation strength :math:`\alpha` of the deviation from temperature scaling.
    difference_penalty : float, default=1.0
        Regularisation strength :math:`\beta` of the differences between adjacent slopes.
    mixing : float, default=1.0
        Number :math:`\mu` of uniform pseudo-rows; 0 for none.

    Attributes
    ----------
    temperature_, inverse_temperature_ : float
        T, and 1 / T.
    uniform_share_ : float
        Weight :math:`\mu / (n + \mu)` of the uniform distribution.
    knots_ : ndarray of shape (m - 1,)
        Knots of :math:`\varphi`.
    slopes_ : ndarray of shape (m,)
        s: slopes below, between and above the knots.
    row_knots_ : ndarray of shape (R,)
        Knots of :math:`\tau`: mean log-probabilities of a row.
    row_slopes_ : ndarray of shape (R,)
        t: values of :math:`\tau` at its knots, constant beyond the outer ones.
    weights_ : ndarray of shape (K,) or (K, K), or None
        v, or the matrix with v on its diagonal and M off it; None without class terms.
    intercept_ : ndarray of shape (K,) or None
        b.
    solution_ : Solution
        Result of the solver; its ``theta`` are the parameters of :meth:`logit_map`.

    Notes
    -----
    *Shared map.* The knots of :math:`\varphi` divide all scores into segments of equal information, q (1 - q); those of
    :math:`\tau` are the centres of R groups of equally many rows. A function of the score alone treats a class of
    probability 0.1 in the same way whether the rest is one rival or a hundred; :math:`\tau` distinguishes these rows by
    :math:`-\bar x - \log K`, the divergence from the uniform distribution. Both functions are increasing, so
    ``class_terms=None`` is order-preserving: exactly for the arg-max, up to rounding for the other classes.

    *Contains the identity.* If the mean training log-loss exceeds that of the uncalibrated predictions, as mixing can cause
    when nearly all rows are correct, the identity is kept except for zeros; a warning and ``solution_.status`` say so.

    *Weights* are frequencies: a row of weight 2 is equivalent to a repeated row. Weights with a mean below 1 are relative
    and do not reduce the number of rows.

    *Domain.* Log-probabilities: logits and their softmax give the same map. Mixing bounds x below by
    :math:`\log \frac{\mu}{K (n + \mu)}`, which limits extrapolation.

    *The authors' program* has the same temperature, mixing and ridge penalty by default, which ``shared_map=False``
    reproduces. Its lasso and concave penalties are not implemented here. The shared map is our addition.

    *Batches.* ``partial_fit`` takes temperature, mixing and knots from the first rows. For up to 1,200 parameters it keeps a
    quadratic approximation of the loss of earlier batches, in memory of the square of that number. For more, and until
    every class has been observed, it keeps a sample of up to 10,000 rows and refits it with every batch.
    See :doc:`/online`.

    *Cost.* Newton steps with bounds: O(nP^2) each for P parameters up to some hundred, beyond that conjugate gradients with
    products of O(nK), or O(nK^2) for the matrix; memory O(nK). From millions of scores on, float32 is computed in float32,
    and the knots of :math:`\varphi` come from a sample that does not depend on the order of the rows.

    Examples
    --------
    Confident rows are wrong too often, others are calibrated, and the last class is more frequent than predicted.

    >>> p = [[0.98, 0.01, 0.01]] * 500 + [[0.01, 0.98, 0.01]] * 500 + [[0.4, 0.4, 0.2]] * 500
    >>> y = ([0] * 7 + [1] + [2] * 2) * 50 + ([1] * 7 + [0] + [2] * 2) * 50 + ([0, 1] * 4 + [2] * 2) * 50
    >>> fitted = StructuredScaling().fit(p, y)
    >>> fitted.predict_proba(p[::500]).round(2)
    array([[0.7 , 0.11, 0.19], [0.11, 0.7 , 0.19], [0.39, 0.39, 0.23]])
    >>> from calibrant import TemperatureScaling
    >>> TemperatureScaling().fit(p, y).predict_proba(p[::500]).round(2)
    array([[0.71, 0.15, 0.15], [0.15, 0.71, 0.15], [0.36, 0.36, 0.28]])
    """

    registry_names: ClassVar[dict[str, dict[str, Any]]] = {
        "shared-map": {"class_terms": None},
        "structured-vector": {"class_terms": "vector", "shared_map": False},
        "structured-matrix": {"class_terms": "matrix", "shared_map": False},
        "shared-vector": {"class_terms": "vector"},
        "shared-matrix": {},
    }

    structure: ClassVar[tuple[str, ...]] = ("class_terms", "shared_map")

    temperature_: float
    inverse_temperature_: float
    uniform_share_: float
    knots_: Vector
    slopes_: Vector
    row_knots_: Vector
    row_slopes_: Vector
    weights_: Vector | None
    intercept_: Vector | None
    solution_: Solution
    _shared: _Shared | None = None

    def __init__(
        self,
        class_terms: ClassTerms = "matrix",
        shared_map: bool = True,
        strength: float = 1.0,
        n_segments: int = 6,
        row_knots: int = 4,
        slope_penalty: float = 1.0,
        difference_penalty: float = 1.0,
        mixing: float = 1.0,
    ) -> None:
        self.class_terms = class_terms
        self.shared_map = shared_map
        self.strength = strength
        self.n_segments = n_segments
        self.row_knots = row_knots
        self.slope_penalty = slope_penalty
        self.difference_penalty = difference_penalty
        self.mixing = mixing

    @property
    def fit_cost(self) -> FitCost | None:  # type: ignore[override]
        """A matrix takes long for many classes; the other forms do not."""
        return FitCost(0.006, classes=1.25) if self.class_terms == "matrix" else None

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """Without class terms the map is increasing and shared by all classes."""
        alone = self._setting("class_terms") is None
        return Traits(keeps_argmax=alone, contains_identity=True, shares_parameters=alone)

    def fit_labelled(self, data: LabelledPredictions, *, warn_of_absent: bool = True) -> Self:
        """Fit parsed rows; see ``fit``."""
        super().fit_labelled(data, warn_of_absent=warn_of_absent)
        if self.present_columns_ is None or self._keeps_identity:
            return self
        # The fit saw only observed classes. The output, with other classes and the floor of zeros, is compared here.
        given = data.predictions.with_floor(self.floor_)
        if given.without_zeros() is not given and is_worse_than_identity(data, self.transform):
            self._keep_identity()
        return self

    def _trace(self, given: TracedPredictions) -> TracedPredictions:
        """Return the fitted map of all columns, or the identity except for zeros if it was kept."""
        traced = super()._trace(given)
        return given.with_floor(self.floor_).without_zeros() if self._keeps_identity else traced

    @property
    def _keeps_identity(self) -> bool:
        return not self._has_seen_one_class and self.solution_.status is Status.IDENTITY

    def fit_path(
        self, X: Any, y: Any, strengths: Sequence[float] | None = None, sample_weight: Any = None
    ) -> list[Self]:
        """Fit a regularisation path: return fitted copies, one for every strength, in the order given.

        They share temperature, features, knots and preconditioner, with a warm start from the next larger strength. From a
        strength of about 1e-3 on, each equals a separate fit, to 1e-8 nats, or 1e-5 for millions of scores in float32. For
        smaller strengths there may be no optimum; then parameters may differ, and ``solution_.status`` says that they
        diverge.

        Parameters
        ----------
        X, y, sample_weight
            Calibration rows, see ``fit``.
        strengths : sequence of float
            Regularisation strengths of the class terms.

        Examples
        --------
        >>> p, y = [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]] * 9, [0, 1, 0, 1, 0, 1] * 6
        >>> path = StructuredScaling("vector").fit_path(p, y, [1.0, 100.0])
        >>> [bool(abs(fitted.weights_).max() < 0.01) for fitted in path]
        [False, True]
        """
        if isinstance(X, LabelledPredictions):
            return self.fit_path_labelled(X, y if strengths is None else strengths)
        if strengths is None:
            raise ParameterError("strengths must be given: numbers of at least 0, such as [0.1, 1, 10].")
        return self.fit_path_labelled(LabelledPredictions.parse(X, y, sample_weight), strengths)

    def fit_path_labelled(
        self,
        data: LabelledPredictions,
        strengths: Sequence[float],
        *,
        nearby: NearbyPath | None = None,
        warn_of_absent: bool = True,
    ) -> list[Self]:
        """Fit a path to parsed rows; see :meth:`fit_path`.

        ``nearby`` is where to start. ``warn_of_absent=False`` is for stages whose caller has already warned of classes
        without rows.
        """
        for strength in strengths:
            check_not_negative("strength", strength, "such as 1")
        return self._path(data, strengths, _Shared(nearby=nearby), warn_of_absent=warn_of_absent)

    def fit_trial_path(
        self, data: LabelledPredictions, strengths: Sequence[float], nearby: NearbyPath | None = None
    ) -> "tuple[list[StructuredScaling], NearbyPath | None]":
        """Fit a path for cross-validation, to 1e-3 nats, and return it with the start of that of the next fold.

        >>> from calibrant.synthetic import tasks
        >>> rows = tasks()["mixed"].sample(300, random_state=0)
        >>> data = LabelledPredictions.parse(rows.predictions, rows.labels)
        >>> _, nearby = StructuredScaling().fit_trial_path(data.take(np.arange(200)), [1.0])
        >>> [fitted], _ = StructuredScaling().fit_trial_path(data.take(np.arange(100, 300)), [1.0], nearby)
        >>> exact = StructuredScaling().fit_labelled(data.take(np.arange(100, 300)))
        >>> bool(abs(fitted.solution_.value - exact.solution_.value) < 1e-5)
        True
        """
        shared = _Shared(nearby=nearby, least_tolerance=TOLERANCE_OF_TRIALS)
        path: list[StructuredScaling] = [*self._path(data, strengths, shared, warn_of_absent=False)]
        if shared.rows is None or path[0]._has_seen_one_class:
            return path, None
        return path, shared.rows.path

    def _path(
        self, data: LabelledPredictions, strengths: Sequence[float], shared: _Shared, *, warn_of_absent: bool
    ) -> list[Self]:
        path: dict[int, Self] = {}
        for place in np.argsort(strengths)[::-1].tolist():
            twin: Self = clone(self).set_params(strength=strengths[place])
            twin._shared = shared
            try:
                path[place] = twin.fit_labelled(data, warn_of_absent=warn_of_absent and not path)
            finally:
                del twin._shared
        return [path[place] for place in range(len(strengths))]

    def family(self, n_classes: int) -> Family:
        """Return the family around the fitted temperature, with the fitted knots."""
        logit_map = self._map(n_classes)

        penalty = structured_penalty(logit_map, self.strength, self.slope_penalty, self.difference_penalty)
        # The penalty is centred at temperature scaling, whose temperature was fitted to the same rows.
        features = mixed_scores(self.inverse_temperature_, self.uniform_share_)
        return Family(features, logit_map, penalty_in_rows=penalty, free_direction=logit_map.identity())

    def _fit_source(self, source: RowSource) -> None:
        self._check_parameters()
        shared = self._shared or _Shared()
        if shared.rows is None:
            shared.rows = StructuredRows.of(
                source, self.mixing, bool(self.shared_map), self.n_segments, self.row_knots
            )
            shared.rows.nearby, shared.rows.least_tolerance = shared.nearby, shared.least_tolerance
        rows, segments = shared.rows, shared.rows.segments
        self.inverse_temperature_, self.uniform_share_ = rows.inverse_temperature, rows.uniform_share
        self.knots_ = np.empty(0) if segments is None else segments.scores.knots
        self.row_knots_ = np.empty(0) if segments is None or segments.rows is None else segments.rows.knots
        self._use(rows.solve(self.family(source.n_classes), self.strength))
        if not self.solution_.loss <= self.solution_.identity_loss:
            self._keep_identity()
        self.solution_.warn_unless_converged("StructuredScaling")

    def _n_parameters(self, n_classes: int) -> int:
        shared = self.n_segments + self.row_knots if self.shared_map else 0
        own = {"matrix": n_classes * (n_classes + 1), "vector": 2 * n_classes, None: 0}[self.class_terms]
        return int(shared) + own

    def _set_parameters(self, theta: Vector) -> None:
        logit_map = self.logit_map()
        segments = logit_map.segments
        n_segments = 0 if segments is None else segments.scores.n_segments
        self.temperature_ = 1 / self.inverse_temperature_
        self.slopes_ = np.ones(1) if segments is None else theta[:n_segments].copy()
        self.row_slopes_ = theta[n_segments : logit_map.n_slopes].copy()
        self.weights_, self.intercept_ = logit_map.deviations(theta)

    def _keep_identity(self) -> None:
        nothing = self.solution_.identity_loss
        self.inverse_temperature_, self.uniform_share_ = 1.0, 0.0
        identity = self.logit_map().identity()
        self._use(
            replace(self.solution_, theta=identity, value=nothing, loss=nothing, status=Status.IDENTITY)
        )
        warn_user(f"StructuredScaling: {Status.IDENTITY.value}.", CalibrationWarning)

    def _check_parameters(self) -> None:
        if self.class_terms not in (None, "vector", "matrix"):
            raise ParameterError(f"class_terms must be 'vector', 'matrix' or None, not {self.class_terms!r}.")
        check_flag("shared_map", self.shared_map)
        if self.class_terms is None and not self.shared_map:
            raise ParameterError("class_terms=None leaves nothing to fit unless shared_map is True.")
        check_not_negative("strength", self.strength, "such as 1")
        check_whole("n_segments", self.n_segments)
        if self.row_knots != 0:
            check_whole("row_knots", self.row_knots, 2)
        check_not_negative("slope_penalty", self.slope_penalty, "such as 1")
        check_not_negative("difference_penalty", self.difference_penalty, "such as 1")
        check_not_negative("mixing", self.mixing, "such as 1")

    def logit_map(self) -> StructuredMap:
        """Return the map from features to calibrated logits, linear in its parameters, which are ``solution_.theta``.

        Features are ``mixed_scores`` at ``inverse_temperature_`` and ``uniform_share_``.
        """
        return self._map(len(self.classes_) if self.present_columns_ is None else len(self.present_columns_))

    def _map(self, n_classes: int) -> StructuredMap:
        rows = RowScales(self.row_knots_) if len(self.row_knots_) else None
        has_segments = self._setting("shared_map")
        segments = SharedSegments(LinearSegments(self.knots_), rows) if has_segments else None
        return StructuredMap(n_classes, segments, self._setting("class_terms"))
