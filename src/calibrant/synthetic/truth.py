"""True errors of a calibrator on a synthetic task, by numerical integration instead of sampling."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import xlogy

from calibrant.arrays import Float64Array
from calibrant.calibrator import Calibrator
from calibrant.errors import ParameterError, PredictionError
from calibrant.numerics.rounding import SAME_COST
from calibrant.numerics.row_blocks import row_blocks
from calibrant.options import check_whole
from calibrant.predictions import Predictions
from calibrant.space import Space
from calibrant.synthetic.integration import IntegrationRule, Nodes, settled_rule
from calibrant.synthetic.level_sets import ConditionalSizes, conditional_sizes
from calibrant.synthetic.task import SyntheticTask

__all__ = ["TrueErrors", "true_errors"]


@dataclass(frozen=True)
class TrueErrors:
    r"""True (population) errors and losses of a map :math:`g`, where the true map is :math:`c`.

    Attributes
    ----------
    confidence : float
        :math:`\operatorname{E} |M - \operatorname{E}[c_{\hat y}(P) \mid M]|` with :math:`M = \max g(P)` and
        :math:`\hat y = \arg\max g(P)`: the true confidence calibration error. This and the next three are NaN with
        :class:`GaussJacobi`.
    confidence_l2 : float
        The same as root mean square.
    classwise : float
        Mean over classes of :math:`\operatorname{E} |g_k - \operatorname{E}[c_k(P) \mid g_k]|`.
    classwise_l2 : float
        The same as root mean square for each class.
    pointwise_confidence : float
        :math:`\operatorname{E} |M - c_{\hat y}(P)|`: errors of rows with the same confidence do not cancel.
    pointwise_classwise : float
        Mean over classes of :math:`\operatorname{E} |g_k(P) - c_k(P)|`.
    multiclass : float
        :math:`\operatorname{E} \lVert g(P) - c(P) \rVert_1`.
    multiclass_l2 : float
        :math:`(\operatorname{E} \lVert g(P) - c(P) \rVert_2^2)^{1/2}`.
    log_loss, brier_score : float
        Expected losses, Brier summed over classes.
    excess_log_loss, excess_brier_score : float
        Difference from the losses of the true probabilities: :math:`\operatorname{E} \operatorname{KL}(c \Vert g)` and
        the square of ``multiclass_l2``.
    accuracy : float
        :math:`\operatorname{E} c_{\hat y}(P)`.
    lost_accuracy : float
        Best possible accuracy minus ``accuracy``.
    loss_gap : float
        Average loss gap over random losses, see :func:`calibrant.metrics.average_loss_gap`.
    integration_errors : dict of str to float
        Estimated integration error of each of these numbers; NaN if unknown.
    n_nodes : int
        Number of nodes of the integration.

    Examples
    --------
    >>> from calibrant.synthetic import SyntheticTask, TemperatureMap, true_errors
    >>> task = SyntheticTask((0.5, 0.5, 0.5), TemperatureMap(2.0))
    >>> perfect = true_errors(task, task.calibration_map)
    >>> perfect.confidence, round(perfect.excess_log_loss, 12)
    (0.0, 0.0)
    """

    confidence: float
    confidence_l2: float
    classwise: float
    classwise_l2: float
    pointwise_confidence: float
    pointwise_classwise: float
    multiclass: float
    multiclass_l2: float
    log_loss: float
    excess_log_loss: float
    brier_score: float
    excess_brier_score: float
    accuracy: float
    lost_accuracy: float
    loss_gap: float
    integration_errors: dict[str, float]
    n_nodes: int

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes as plain numbers."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"true errors by integration over {self.n_nodes:,} nodes"]
        for name, error in self.integration_errors.items():
            lines.append(f"  {name.replace('_', ' '):22s}{getattr(self, name):10.6f} +- {error:.1g}")
        return "\n".join(lines)


Map = Calibrator | Callable[[Float64Array], Any]

ROWS_AT_LEAST = 256

UNKNOWN = ConditionalSizes(np.nan, np.nan, np.nan, np.nan)


def true_errors(
    task: SyntheticTask,
    calibrator: Map | None = None,
    *,
    rule: IntegrationRule | None = None,
    n_cells: int = 128,
    n_losses: int = 500,
    n_decisions: int = 2,
    random_state: int = 0,
) -> TrueErrors:
    r"""Compute the true errors and losses of a calibrator on a synthetic task, by numerical integration.

    Parameters
    ----------
    task : SyntheticTask
        Defines the distribution of predictions and their true probabilities.
    calibrator : Calibrator or callable, optional
        Fitted calibrator, or a function of rows of probabilities, (n, K); by default the identity.
    rule : IntegrationRule, optional
        :class:`ScrambledSobol` by default, valid for any map and number of classes. :class:`GaussJacobi` is more accurate for
        the losses of smooth maps with few classes, but leaves ``confidence`` and ``classwise`` at NaN.
    n_cells : int, default=128
        Number of cells of equal mass in which the conditional expectations of ``confidence`` and ``classwise`` are estimated.
    n_losses, n_decisions : int, default=500 and 2
        Number of random losses for the loss gap, and of decisions to choose from for each.
    random_state : int, default=0
        Seed of these losses, in the convention of :func:`calibrant.metrics.average_loss_gap`: 0 gives those of
        :cite:`valk2022`.

    Returns
    -------
    TrueErrors
        Errors and losses with their integration errors.

    Notes
    -----
    True errors follow :cite:`valk2022`, section 2.3: they use the expectation of the label given the scalar, which averages
    over all predictions with the same largest, or same k-th, probability. For a map with very many steps, such as a forest,
    hardly any two regions have exactly the same scalar. The cells then give the error at their resolution, which is all that
    can be observed. The ``pointwise`` errors need no such convention.

    The noise of the nodes biases conditional errors upwards, unless independent sets of nodes allow a correction. A rule with
    one set, :class:`GaussJacobi`, therefore gives NaN for ``confidence``, ``classwise`` and their squared forms.

    Losses use the true probabilities instead of labels: :math:`-\operatorname{E} \sum_k c_k \ln g_k`, for example, which is
    infinite if the map gives probability zero to a possible class.

    Costs one evaluation of both maps per node, then O(m (K log m + K n_losses n_decisions)) time for m nodes and
    O(m K) memory.

    Examples
    --------
    An overconfident classifier, and temperature scaling fitted to 2,000 rows of it:

    >>> from calibrant import TemperatureScaling
    >>> from calibrant.synthetic import TemperatureMap
    >>> task = SyntheticTask((0.5, 0.5, 0.5), TemperatureMap(1.5))
    >>> rows = task.sample(2000, random_state=0)
    >>> fitted = TemperatureScaling().fit(rows.predictions, rows.labels)
    >>> before, after = true_errors(task), true_errors(task, fitted)
    >>> round(before.confidence, 4), round(after.confidence, 4)
    (0.0802, 0.0011)
    >>> round(before.excess_log_loss, 4), round(after.excess_log_loss, 5)
    (0.0324, 1e-05)
    """
    check_whole("n_cells", n_cells)
    check_whole("n_losses", n_losses)
    check_whole("n_decisions", n_decisions)
    check_whole("random_state", random_state, 0)
    if not isinstance(task, SyntheticTask):
        raise ParameterError(f"task must be a SyntheticTask, not {task!r}.")
    if calibrator is not None and not callable(calibrator) and not isinstance(calibrator, Calibrator):
        raise ParameterError(f"calibrator must be a fitted Calibrator or a function, not {calibrator!r}.")
    rule = settled_rule(rule)
    shape = n_losses, n_decisions, task.n_classes
    losses = np.random.RandomState(random_state).standard_normal(shape)
    values, errors, n_nodes = _evaluated(
        task, calibrator, rule.replicates(task.concentration), n_cells, losses
    )
    others = [
        _evaluated(task, calibrator, coarse.replicates(task.concentration), n_cells, losses)[0]
        for coarse in rule.coarser()
    ]
    if others:
        errors = {name: max(abs(values[name] - other[name]) for other in others) for name in errors}
    return TrueErrors(**values, integration_errors=errors, n_nodes=n_nodes)


def _evaluated(
    task: SyntheticTask, calibrator: Map | None, replicates: list[Nodes], n_cells: int, losses: Float64Array
) -> tuple[dict[str, float], dict[str, float], int]:
    """Return all numbers, their errors estimated from replicates, and the number of nodes."""
    means: list[dict[str, float]] = []
    gaps, scalars, differences = [], [], []
    for nodes in replicates:
        truth = task.true_probabilities(nodes.points)
        given, logarithms = _mapped(calibrator, nodes.points)
        means.append(_means(truth, given, logarithms, nodes.weights))
        gaps.append(_signed_gaps(truth, given, nodes.weights, losses))
        top = given.argmax(axis=1)[:, np.newaxis]
        scalars.append(np.hstack([np.take_along_axis(given, top, axis=1), given]))
        differences.append(scalars[-1] - np.hstack([np.take_along_axis(truth, top, axis=1), truth]))
    values, errors = {}, {}
    for name in means[0]:
        values[name], errors[name] = _mean_with_error([part[name] for part in means])
    values["loss_gap"], errors["loss_gap"] = _mean_absolute(np.array(gaps))
    values["multiclass_l2"], errors["multiclass_l2"] = _root(
        values["excess_brier_score"], errors["excess_brier_score"]
    )

    weights = np.concatenate([nodes.weights for nodes in replicates])
    if len(replicates) == 1:
        sizes = [UNKNOWN] * (task.n_classes + 1)
    else:
        columns = zip(np.vstack(scalars).T, np.vstack(differences).T, strict=True)
        sizes = [
            conditional_sizes(scalar.copy(), difference.copy(), weights, len(replicates), n_cells)
            for scalar, difference in columns
        ]
    for name, parts in (("confidence", sizes[:1]), ("classwise", sizes[1:])):
        roots = [_root(part.squared, part.squared_error) for part in parts]
        values[name] = float(np.mean([part.absolute for part in parts]))
        errors[name] = float(np.mean([part.absolute_error for part in parts]))
        values[f"{name}_l2"], errors[f"{name}_l2"] = (float(number) for number in np.mean(roots, axis=0))
    ordered = [name for name in TrueErrors.__dataclass_fields__ if name in values]
    return values, {name: errors[name] for name in ordered}, len(weights)


def _mapped(calibrator: Map | None, points: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return the output of the map for every node, and its natural logarithm."""
    predictions = Predictions.from_probabilities(points)
    if isinstance(calibrator, Calibrator):
        result = calibrator.transform(predictions)
    elif calibrator is not None:
        result = Predictions.parse(calibrator(points.copy()))
    else:
        result = predictions
    if result.scores.shape != points.shape:
        raise PredictionError(
            f"the map gave shape {result.scores.shape} for {points.shape}; it must keep rows and classes."
        )
    given = result.probabilities.astype(np.float64)
    given /= given.sum(axis=1, keepdims=True)
    if result.space is Space.LOGITS:
        return given, result.log_probabilities.astype(np.float64)
    with np.errstate(divide="ignore"):
        return given, np.log(given)


def _means(
    truth: Float64Array, given: Float64Array, logarithms: Float64Array, weights: Float64Array
) -> dict[str, float]:
    """Return the expectations that are sums over nodes."""
    difference = given - truth
    rows = np.arange(len(truth))
    top = given.argmax(axis=1)
    entropy = -xlogy(truth, truth).sum(axis=1)
    with np.errstate(invalid="ignore"):
        # A zero costs nothing if the true probability is zero too.
        log_loss = -np.where(truth > 0, truth * logarithms, 0.0).sum(axis=1)
    distance = np.abs(difference).sum(axis=1)
    squares = np.einsum("nk,nk->n", difference, difference)
    hit, best = truth[rows, top], truth.max(axis=1)
    expected = {
        "pointwise_confidence": np.abs(difference[rows, top]),
        "pointwise_classwise": distance / truth.shape[1],
        "multiclass": distance,
        "log_loss": log_loss,
        "excess_log_loss": log_loss - entropy,
        "brier_score": squares + 1 - np.einsum("nk,nk->n", truth, truth),
        "excess_brier_score": squares,
        "accuracy": hit,
        "lost_accuracy": best - hit,
    }
    return {name: float(weights @ values) for name, values in expected.items()}


def _signed_gaps(
    truth: Float64Array, given: Float64Array, weights: Float64Array, losses: Float64Array
) -> Float64Array:
    """Return expected predicted minus expected true loss of the Bayes decisions, for every loss, (m,)."""
    n_losses, n_decisions, n_classes = losses.shape
    columns = np.ascontiguousarray(losses.transpose(2, 1, 0).reshape(n_classes, -1))  # decisions side by side
    tolerances = SAME_COST * np.abs(losses).max(axis=(1, 2))
    result = np.zeros(n_losses)
    for block in row_blocks(len(truth), n_losses * n_decisions, min_rows=ROWS_AT_LEAST):
        expected_losses = (given[block] @ columns).reshape(-1, n_decisions, n_losses)
        bound = expected_losses.min(axis=1) + tolerances
        weighted = weights[block, np.newaxis] * (given[block] - truth[block])
        undecided = np.ones(bound.shape, dtype=bool)
        for decision in range(n_decisions):
            taken = (expected_losses[:, decision] <= bound) & undecided
            undecided &= ~taken
            result += np.einsum("mk,mk->m", losses[:, decision], taken.T.astype(np.float64) @ weighted)
    return result


def _mean_with_error(parts: list[float]) -> tuple[float, float]:
    """Return the mean of replicates and its standard error, NaN for one."""
    if len(parts) == 1 or not np.isfinite(parts).all():
        return float(np.mean(parts)), float("nan")
    return float(np.mean(parts)), float(np.std(parts, ddof=1) / np.sqrt(len(parts)))


def _mean_absolute(parts: Float64Array) -> tuple[float, float]:
    """Return the mean absolute value of a mean over replicates, (R, m), corrected for the bias of its noise."""
    n_replicates, others = len(parts), len(parts) - 1
    plain = float(np.abs(parts.mean(axis=0)).mean())
    if others == 0:
        return plain, float("nan")
    without = np.abs((parts.sum(axis=0) - parts) / others).mean(axis=1)
    unbiased = n_replicates * plain - others * float(without.mean())
    return max(0.0, unbiased), float(np.sqrt(others * without.var())) + abs(plain - unbiased)


def _root(square: float, error: float) -> tuple[float, float]:
    """Return a square root, and its error if the square changes by its own error."""
    root = float(np.sqrt(np.maximum(0.0, square)))  # which keeps NaN, unlike the maximum of Python
    return root, float(np.sqrt(root**2 + error)) - root
