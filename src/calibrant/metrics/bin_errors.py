"""From bins to one number: the code that all binned calibration errors share."""

from numbers import Real
from typing import Any, Literal

import numpy as np

from calibrant.arrays import Float64Array, FloatArray, IntArray
from calibrant.binning import BinningScheme, EqualMass, EqualWidth, Partition
from calibrant.errors import ParameterError

__all__ = ["Norm", "Strategy", "check_fixed", "check_norm", "chosen_partition", "chosen_scheme", "gap_norms"]

Strategy = Literal["uniform", "quantile"]
Norm = float | Literal["max"]


def chosen_scheme(n_bins: int, strategy: Strategy, binning: BinningScheme | None) -> BinningScheme:
    """Return the scheme that the arguments of a metric ask for; ``binning`` takes precedence."""
    if binning is not None:
        if not callable(binning) or isinstance(binning, type):
            raise ParameterError(
                f"binning must be a scheme such as EqualMass(10), not {binning!r}; "
                "for given edges, pass FixedEdges(edges)."
            )
        return binning
    if strategy == "uniform":
        return EqualWidth(n_bins)
    if strategy == "quantile":
        return EqualMass(n_bins)
    raise ParameterError(
        f"strategy must be 'uniform' or 'quantile', not {strategy!r}; for other bins, pass binning=."
    )


def chosen_partition(scheme: BinningScheme, scores: FloatArray, weights: Float64Array | None) -> Partition:
    """Return the partition of a scheme for these scores; raise if the scheme returns anything else."""
    partition = scheme(scores, weights)
    if not isinstance(partition, Partition):
        raise ParameterError(
            "binning must return FixedEdges or another Partition when called on scores, "
            f"not {type(partition).__name__}."
        )
    return partition


def check_fixed(scheme: BinningScheme | None) -> None:
    """Raise unless the bins are fixed in advance, as rows that arrive in batches require."""
    if not isinstance(scheme, Partition):
        raise ParameterError(
            f"{scheme!r} chooses its bins from all scores at once, so batches cannot be added up; "
            "choose the bins from a first batch of scores and pass them as binning=FixedEdges(edges)."
        )


def check_norm(norm: Any) -> None:
    """Raise unless the norm is ``"max"`` or a finite number of at least one."""
    if norm != "max" and not (isinstance(norm, Real) and 1 <= float(norm) < np.inf):
        raise ParameterError(f"norm must be 1, 2, another number of at least 1, or 'max', not {norm!r}.")


def gap_norms(
    weight: Float64Array,
    score_sum: Float64Array,
    outcome_sum: Float64Array,
    starts: IntArray,
    norm: Norm,
) -> Float64Array:
    r"""Return the weighted p-norm of the gaps for each slice of consecutive bins, or the largest gap.

    Parameters
    ----------
    weight, score_sum, outcome_sum : ndarray of shape (C,)
        Sums over the rows of each bin; bins without weight are ignored.
    starts : ndarray of shape (S,)
        First bin of each slice; the first entry is 0.
    norm : float or "max"
        p.
    """
    if norm == 1:
        gaps: Float64Array = np.add.reduceat(np.abs(outcome_sum - score_sum), starts)
        return gaps / np.add.reduceat(weight, starts)
    gap = np.divide(np.abs(outcome_sum - score_sum), weight, out=np.zeros_like(weight), where=weight > 0)
    if norm == "max":
        largest: Float64Array = np.maximum.reduceat(gap, starts)
        return largest
    powers: Float64Array = np.add.reduceat(weight * gap**norm, starts) / np.add.reduceat(weight, starts)
    return powers ** (1 / norm)
