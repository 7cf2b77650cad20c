"""Holm's adjustment of p-values for multiple testing."""

from typing import Any

import numpy as np

from calibrant.arrays import Float64Array
from calibrant.errors import ParameterError
from calibrant.options import real_array

__all__ = ["holm"]


def holm(p_values: Any) -> Float64Array:
    r"""Adjust p-values for multiple testing by Holm's step-down method (familywise error rate).

    .. math:: \tilde p_{(i)} = \max_{j \le i} \, \min\{ (m - j + 1) \, p_{(j)}, 1 \}

    for the m p-values in increasing order :cite:`holm1979`. Valid for any dependence between the tests, and
    at least as powerful as Bonferroni's correction.

    Parameters
    ----------
    p_values : array of shape (m,)
        From 0 to 1.

    Returns
    -------
    ndarray of shape (m,)
        Adjusted p-values, in the order given. Costs O(m log m).

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    given = real_array(p_values)
    if given is None or given.ndim != 1 or not ((given >= 0) & (given <= 1)).all():
        raise ParameterError(f"p_values must be a flat array of numbers from 0 to 1, not {p_values!r}.")
    order = np.argsort(given, kind="stable")
    scaled = np.minimum(given[order] * np.arange(len(given), 0, -1), 1.0)
    adjusted = np.empty_like(given)
    adjusted[order] = np.maximum.accumulate(scaled)
    return adjusted
