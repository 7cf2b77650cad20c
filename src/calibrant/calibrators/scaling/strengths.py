"""How strong a penalty is to be: a number, the best of a grid, or found by a walk."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrant.calibrators.scaling.penalty_search import FoldFits, Strengths, best_of_grid, climb
from calibrant.errors import ParameterError

__all__ = ["Fixed", "Strength", "StrengthSearch", "parse_strengths"]

Given = tuple[float | None, float | None]
Strength = float | Sequence[float] | Literal["auto"] | None


@dataclass(frozen=True)
class Fixed:
    """Both numbers are given."""

    reg_lambda: float
    reg_mu: float

    @property
    def given(self) -> Given:
        """Both."""
        return self.reg_lambda, self.reg_mu


class StrengthSearch(ABC):
    """A way to choose strengths by cross-validation."""

    @property
    @abstractmethod
    def given(self) -> Given:
        """The numbers among the two that are not searched for."""

    @abstractmethod
    def choose(self, fits: FoldFits, natural: Strengths) -> Strengths:
        """Return the best (lambda, mu); ``natural`` is where to begin if nothing else is known."""


@dataclass(frozen=True)
class Grid(StrengthSearch):
    """Every pair of the two lists, or equal values where ``mus`` is None."""

    lambdas: list[float]
    mus: list[float] | None

    @property
    def given(self) -> Given:
        """Those of which there is one."""
        mus = self.lambdas if self.mus is None else self.mus
        return (
            self.lambdas[0] if len(self.lambdas) == 1 else None,
            mus[0] if len(mus) == 1 else None,
        )

    def choose(self, fits: FoldFits, natural: Strengths) -> Strengths:  # noqa: ARG002 (the grid says it all)
        return best_of_grid(fits, self.lambdas, self.mus)


@dataclass(frozen=True)
class Walk(StrengthSearch):
    """Powers of ten around the natural values; a number stays, and ``tied`` keeps the two equal."""

    reg_lambda: float | None
    reg_mu: float | None
    tied: bool

    @property
    def given(self) -> Given:
        """The one that stays, if any."""
        return self.reg_lambda, self.reg_mu

    def choose(self, fits: FoldFits, natural: Strengths) -> Strengths:
        if self.tied:
            return climb(fits, (natural[0], natural[0]), [(1, 1), (-1, -1)])
        reg_lambda = natural[0] if self.reg_lambda is None else self.reg_lambda
        reg_mu = natural[1] if self.reg_mu is None else self.reg_mu
        moves = [(1, 0), (-1, 0)] if self.reg_lambda is None else []
        moves += [(0, 1), (0, -1)] if self.reg_mu is None else []
        return climb(fits, (reg_lambda, reg_mu), moves)


def parse_strengths(reg_lambda: Strength, reg_mu: Strength) -> Fixed | StrengthSearch:
    """Return what the two parameters ask for; ``reg_mu=None`` ties it to ``reg_lambda``.

    >>> parse_strengths(0.1, None)
    Fixed(reg_lambda=0.1, reg_mu=0.1)
    >>> parse_strengths([1.0, 10.0], 0.5)
    Grid(lambdas=[1.0, 10.0], mus=[0.5])
    """
    lambdas = _numbers("reg_lambda", reg_lambda)
    mus = None if reg_mu is None else _numbers("reg_mu", reg_mu)
    if lambdas is None or (mus is None and reg_mu is not None):
        if _is_grid(reg_lambda) or _is_grid(reg_mu):
            raise ParameterError(
                "reg_lambda and reg_mu must be both grids, or 'auto' and a number; not 'auto' and a grid."
            )
        return Walk(
            None if lambdas is None else lambdas[0], None if mus is None else mus[0], tied=reg_mu is None
        )
    if _is_grid(reg_lambda) or _is_grid(reg_mu):
        return Grid(lambdas, mus)
    return Fixed(lambdas[0], lambdas[0] if mus is None else mus[0])


def _is_grid(value: Strength) -> bool:
    return value is not None and not isinstance(value, str) and np.ndim(value) > 0


def _numbers(name: str, value: Strength) -> list[float] | None:
    """Return the numbers of a strength as a list, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    try:
        numbers = np.atleast_1d(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError):
        numbers = np.array([np.nan])
    if numbers.ndim != 1 or len(numbers) == 0 or not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise ParameterError(
            f"{name} must be a number not below zero, a sequence of such numbers or 'auto', not {value!r}."
        )
    return [float(number) for number in numbers]
