"""TrueErrors: exact errors and losses of a calibrator on a synthetic task."""

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["TrueErrors"]


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
