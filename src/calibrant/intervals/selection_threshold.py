"""Confidence threshold for selective prediction with a bound on the error rate."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array
from calibrant.intervals.clopper_pearson import clopper_pearson
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.selective import exact_confidences
from calibrant.options import check_choice, check_level, check_share
from calibrant.predictions import Predictions

__all__ = ["SelectionThreshold", "selection_threshold"]

Guarantee = Literal["clopper-pearson", "conformal"]
"""``"clopper-pearson"``: a bound on the error rate of accepted rows. ``"conformal"``: on the mean rate of rows that are
accepted and wrong."""

N_COVERAGES = 20
"""Number of coverages that are tried; each is tested at the error probability divided by this number."""


@dataclass(frozen=True)
class SelectionThreshold:
    """A threshold of the confidence; rows above it are accepted, all others are referred to someone else.

    Attributes
    ----------
    threshold : float
        Rows whose confidence is above this are accepted; -1 accepts all rows, 1 none.
    coverage : float
        Fraction of the given rows that are accepted.
    risk : float
        Error rate among the accepted rows; NaN if none is accepted.
    bound : float
        Upper confidence bound on that error rate, or for ``method="conformal"`` on the mean fraction of rows that are accepted
        and wrong.
    max_risk : float
        The largest admissible value of that bound.
    level : float or None
        Confidence level of the bound; None for ``method="conformal"``, which bounds a mean.
    method : str
        How the bound was computed.
    n_rows, n_accepted : int
        Numbers of rows, all and accepted.

    Examples
    --------
    >>> p = np.repeat([0.99, 0.7], [400, 100])
    >>> y = np.repeat([1, 0, 1, 0], [399, 1, 60, 40])
    >>> chosen = selection_threshold(y, p, max_risk=0.05)
    >>> print(chosen)
    Accept rows with a confidence above 0.7: 80 % of the rows, of which 0.25 % are wrong (at most 2.03 % at a confidence
    level of 95 %).
    >>> chosen.accepts([0.95, 0.02, 0.6])
    array([ True,  True, False])
    """

    threshold: float
    coverage: float
    risk: float
    bound: float
    max_risk: float
    level: float | None
    method: Guarantee
    n_rows: int
    n_accepted: int

    def accepts(self, y_proba: Any) -> NDArray[np.bool_]:
        """Return for every row whether its confidence is above the threshold."""
        return exact_confidences(Predictions.parse(y_proba)) > self.threshold

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes as plain numbers and strings."""
        return asdict(self)

    def __str__(self) -> str:
        if self.n_accepted == 0:
            return (
                f"No threshold keeps the error rate below {100 * self.max_risk:.3g} %: too few of the {self.n_rows} rows are "
                "confident and correct. Refer all rows, accept a higher risk, or collect more rows."
            )
        if self.level is None:
            what = f"on average at most {100 * self.bound:.3g} % of all rows are accepted and wrong"
        else:
            what = f"at most {100 * self.bound:.3g} % at a confidence level of {100 * self.level:g} %"
        rows = "all rows" if self.threshold < 0 else f"rows with a confidence above {self.threshold:.4g}"
        return f"Accept {rows}: {100 * self.coverage:.3g} % of the rows, of which {100 * self.risk:.3g} % are wrong ({what})."


def selection_threshold(
    y_true: Any,
    y_proba: Any,
    *,
    max_risk: float,
    level: float = 0.95,
    method: Guarantee = "clopper-pearson",
) -> SelectionThreshold:
    r"""Threshold of the confidence above which the error rate is at most ``max_risk``, with a guarantee.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two. The rows must be independent and drawn as
        future rows will be. They must not have been used to fit the classifier or the calibrator.
    max_risk : float
        Largest admissible error rate, between 0 and 1.
    level : float, default=0.95
        Confidence level of ``method="clopper-pearson"``.
    method : {"clopper-pearson", "conformal"}, default="clopper-pearson"
        What is guaranteed about the error rate :math:`r(t)` of future rows above the threshold t and their fraction
        :math:`c(t)`:

        - ``"clopper-pearson"``: :math:`r(t) \le` ``max_risk`` with a probability of at least ``level`` over the drawing of the
          given rows. Twenty coverages, 5 % to 100 %, are tested with exact binomial bounds, each at
          :math:`(1 - \mathrm{level}) / 20`, and the largest one that passes is used :cite:`geifman2017`.
        - ``"conformal"``: the mean of :math:`c(t) \, r(t)`, the fraction of all rows that are accepted and wrong, is at most
          ``max_risk`` (conformal risk control :cite:`angelopoulos2024`). This is a weaker promise with more coverage.

    Returns
    -------
    SelectionThreshold
        With coverage 0 if no threshold can be guaranteed.

    Notes
    -----
    Given the value of the threshold, the rows above it are independent draws from all rows above it, so the number of
    wrong ones is binomial. With no mistake among m accepted rows the Clopper-Pearson bound is
    :math:`1 - ((1 - \mathrm{level}) / 20)^{1/m}`: for a risk of 1 % and a level of 95 % at least 597 accepted rows are needed.

    Weights and groups are not supported, since neither bound holds for them. Costs O(nK + n log n).

    Examples
    --------
    >>> p = np.repeat([0.99, 0.7], [400, 100])
    >>> y = np.repeat([1, 0, 1, 0], [399, 1, 60, 40])
    >>> selection_threshold(y, p, max_risk=0.005).coverage
    0.0
    >>> selection_threshold(y, p, max_risk=0.10, method="conformal").coverage
    1.0
    """
    check_share("max_risk", max_risk, 0.05)
    check_level(level)
    check_choice("method", method, ("clopper-pearson", "conformal"))
    data = LabelledPredictions.parse(y_proba, y_true)
    cuts = _cuts(exact_confidences(data.predictions), data.predictions.predicted != data.labels)
    if method == "clopper-pearson":
        chosen, bound = _bounded(cuts, float(max_risk), (1 - level) / N_COVERAGES)
    else:
        # One more row, accepted and wrong, is added to the given ones.
        means = (cuts.n_wrong + 1) / (data.n_rows + 1)
        chosen = int(np.count_nonzero(means <= max_risk)) - 1
        bound = float(means[chosen])
    n_accepted = 0 if chosen < 0 else int(cuts.n_accepted[chosen])
    return SelectionThreshold(
        threshold=1.0 if n_accepted == 0 else float(cuts.threshold[chosen]),
        coverage=n_accepted / data.n_rows,
        risk=float(cuts.n_wrong[chosen]) / n_accepted if n_accepted else float("nan"),
        bound=bound if n_accepted else float("nan"),
        max_risk=float(max_risk),
        level=float(level) if method == "clopper-pearson" else None,
        method=method,
        n_rows=data.n_rows,
        n_accepted=n_accepted,
    )


class _Cuts(NamedTuple):
    """All thresholds, from the highest confidence to -1, with the numbers of rows above them."""

    threshold: Float64Array
    n_accepted: NDArray[np.intp]
    n_wrong: NDArray[np.intp]


def _cuts(confidence: Float64Array, wrong: NDArray[np.bool_]) -> _Cuts:
    values, level_of_row, sizes = np.unique(-confidence, return_inverse=True, return_counts=True)
    wrong_of_level = np.bincount(level_of_row, wrong, minlength=len(values)).astype(np.intp)
    return _Cuts(
        np.append(-values, -1.0),
        np.concatenate([[0], np.cumsum(sizes)]),
        np.concatenate([[0], np.cumsum(wrong_of_level)]),
    )


def _bounded(cuts: _Cuts, max_risk: float, error: float) -> tuple[int, float]:
    """Return the cut of largest coverage whose exact bound is at most ``max_risk``, -1 if there is none, and its bound."""
    n_rows = int(cuts.n_accepted[-1])
    ranks = np.arange(1, N_COVERAGES + 1) * n_rows // N_COVERAGES
    candidates = np.searchsorted(cuts.n_accepted, ranks, side="right") - 1
    # One-sided, so the level of the two-sided interval is 1 - 2 error.
    _, bounds = clopper_pearson(cuts.n_wrong[candidates], cuts.n_accepted[candidates], 1 - 2 * error)
    passed = np.flatnonzero(np.asarray(bounds) <= max_risk)
    if len(passed) == 0:
        return -1, float("nan")
    return int(candidates[passed[-1]]), float(np.asarray(bounds)[passed[-1]])
