"""From bins to one number: what all binned calibration errors share."""

from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.binning import BinningScheme, Bins, EqualMass, EqualWidth, Partition
from calibrant.errors import ParameterError

__all__ = ["Norm", "Strategy", "binned_error", "check_norm", "chosen_scheme", "gap_norm"]

Strategy = Literal["uniform", "quantile"]
Norm = float | Literal["max"]


def chosen_scheme(n_bins: int, strategy: Strategy, binning: BinningScheme | None) -> BinningScheme:
    """Return the scheme that the arguments of a metric ask for; ``binning`` comes before the others."""
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


def check_norm(norm: Any) -> None:
    """Refuse what is neither ``"max"`` nor a finite number of at least one."""
    if norm != "max" and not (isinstance(norm, Real) and 1 <= float(norm) < np.inf):
        raise ParameterError(f"norm must be 1, 2, another number of at least 1, or 'max', not {norm!r}.")


def gap_norm(bins: Bins, norm: Norm) -> float:
    """Return the weighted p-norm of the gaps of all bins, or the largest; empty bins count nothing."""
    gaps = np.abs(bins.gap)
    if norm == "max":
        return float(gaps.max())
    return float((bins.share @ gaps**norm) ** (1 / norm))


def binned_error(
    scores: NDArray[np.floating],
    outcomes: NDArray[Any],
    weights: NDArray[np.float64] | None,
    scheme: BinningScheme,
    norm: Norm,
) -> float:
    """Return the calibration error of one column of scores, all of shape (n,)."""
    partition = scheme(scores, weights)
    if not isinstance(partition, Partition):
        raise ParameterError(
            "binning must return FixedEdges or another Partition when called on scores, "
            f"not {type(partition).__name__}."
        )
    return gap_norm(partition.bins(scores, outcomes, weights), norm)
