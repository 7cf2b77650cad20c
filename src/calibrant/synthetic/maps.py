"""Calibration maps: known functions from predicted to true class probabilities."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.arrays import Matrix
from calibrant.errors import ParameterError
from calibrant.numerics.row_blocks import row_blocks
from calibrant.numerics.simplex import softmax
from calibrant.options import check_whole, is_number, real_array

__all__ = [
    "MIXED_MAP",
    "BlendedMap",
    "CalibrationMap",
    "ClassTemperaturesMap",
    "ComposedMap",
    "ConfusionMap",
    "IdentityMap",
    "LogLinearMap",
    "RegionMap",
    "RotationMap",
    "TemperatureMap",
    "WavesMap",
]


class CalibrationMap(ABC):
    r"""A function :math:`c` from predicted to true probabilities (both on the simplex).

    .. math:: c(p) = \Pr[Y = \cdot \mid P = p]

    Maps are immutable values that can be compared, printed and combined, and are deterministic. A subclass
    implements ``_map``, which receives rows of the simplex, possibly with zeros and ones, and must return such rows.
    """

    @property
    def n_classes(self) -> int | None:
        """Number of classes the map is for; None if it accepts any."""
        return None

    def __call__(self, probabilities: Any) -> Matrix:
        """Return the true probabilities for rows of predictions, (n, K)."""
        rows = np.asarray(probabilities, dtype=np.float64)
        if rows.ndim != 2:
            raise ParameterError(f"a calibration map takes rows of probabilities, not shape {rows.shape}.")
        if self.n_classes not in (None, rows.shape[1]):
            raise ParameterError(
                f"{type(self).__name__} is for {self.n_classes} classes, but the rows have {rows.shape[1]}; "
                "give it one parameter per class."
            )
        return self._map(rows)

    @abstractmethod
    def _map(self, rows: Matrix) -> Matrix:
        """Return rows of the simplex for rows of the simplex, without changing the input."""


# Lower limit of probabilities before taking logarithms, so that weights of either sign give finite scores.
SMALLEST = 1e-300

# Largest parameter; beyond it scores could be infinity minus infinity.
LARGEST = 1e300

SUM_TOLERANCE = 1e-9


@dataclass(frozen=True)
class IdentityMap(CalibrationMap):
    """Identity map: predictions are calibrated.

    >>> IdentityMap()([[0.7, 0.3]])
    array([[0.7, 0.3]])
    """

    def _map(self, rows: Matrix) -> Matrix:
        return rows.copy()


@dataclass(frozen=True)
class TemperatureMap(CalibrationMap):
    r"""One temperature for all rows: overconfidence above 1, underconfidence below.

    .. math:: c_k(p) \propto p_k^{1/T}

    Parameters
    ----------
    temperature : float, default=2.0
        :math:`T > 0`; the value that temperature scaling would find.

    Examples
    --------
    >>> TemperatureMap(2.0)([[0.9, 0.1], [1.0, 0.0]])          # square roots of 9 to 1
    array([[0.75, 0.25], [1.  , 0.  ]])
    """

    temperature: float = 2.0

    def __post_init__(self) -> None:
        if not is_number(self.temperature) or not 0 < self.temperature < np.inf:
            raise ParameterError(f"temperature must be a positive number, not {self.temperature!r}.")

    def _map(self, rows: Matrix) -> Matrix:
        # Relative to the largest; otherwise high powers of many small probabilities would all underflow.
        powers = (rows / rows.max(axis=1, keepdims=True)) ** (1 / self.temperature)
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class ClassTemperaturesMap(CalibrationMap):
    r"""A temperature and a shift per class: over- or underconfidence, and over- or under-prediction, by class.

    .. math:: c_k(p) \propto e^{b_k} \, p_k^{1/T_k}

    Parameters
    ----------
    temperatures : tuple of float
        :math:`T_k > 0`, one per class.
    shifts : tuple of float, optional
        :math:`b_k`, positive for classes that are more frequent than predicted; zeros by default.

    Examples
    --------
    >>> ClassTemperaturesMap((2.0, 1.0), (0.0, np.log(2)))([[0.64, 0.36]]).round(3)      # 0.8 to 2 x 0.36
    array([[0.526, 0.474]])
    """

    temperatures: tuple[float, ...]
    shifts: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        _settle(self, "temperatures", 1)
        if min(self.temperatures) < 1 / LARGEST:
            raise ParameterError(
                f"temperatures must be positive, from {1 / LARGEST:g} on, not {self.temperatures!r}."
            )
        if self.shifts is not None:
            _settle(self, "shifts", 1, len(self.temperatures))

    @property
    def n_classes(self) -> int:
        """Number of temperatures."""
        return len(self.temperatures)

    def _map(self, rows: Matrix) -> Matrix:
        with np.errstate(divide="ignore"):
            scores = np.log(rows)
        scores /= self.temperatures
        if self.shifts is not None:
            scores += self.shifts
        return np.asarray(softmax(scores))


@dataclass(frozen=True)
class LogLinearMap(CalibrationMap):
    r"""An affine map of the log-probabilities, the family of Dirichlet calibration :cite:`kull2019`.

    .. math:: c(p) = \operatorname{softmax}(W \ln p + b)

    Parameters
    ----------
    weights : tuple of tuples of float
        :math:`W`, (K, K); row k gives the score of class k.
    intercepts : tuple of float, optional
        :math:`b`, (K,); zeros by default.

    Notes
    -----
    Zeros are replaced by 1e-300, so that weights of either sign also map corners into the simplex.

    Examples
    --------
    >>> LogLinearMap(((0.5, 0.0), (0.0, 0.5)))([[0.9, 0.1]])
    array([[0.75, 0.25]])
    """

    weights: tuple[tuple[float, ...], ...]
    intercepts: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        _settle(self, "weights", 2)
        if self.intercepts is not None:
            _settle(self, "intercepts", 1, len(self.weights))

    @property
    def n_classes(self) -> int:
        """Number of rows of the weights."""
        return len(self.weights)

    def _map(self, rows: Matrix) -> Matrix:
        scores = np.log(np.maximum(rows, SMALLEST)) @ np.array(self.weights).T
        if self.intercepts is not None:
            scores += self.intercepts
        return np.asarray(softmax(scores))


@dataclass(frozen=True)
class ConfusionMap(CalibrationMap):
    r"""Labels confused at fixed rates: true probabilities are linear in the prediction.

    .. math:: c_k(p) = \sum_j p_j R_{jk}

    Parameters
    ----------
    rates : tuple of tuples of float
        :math:`R`, (K, K): probability that class j is observed as class k; rows sum to one.

    Examples
    --------
    >>> ConfusionMap(((0.9, 0.1), (0.0, 1.0)))([[1.0, 0.0], [0.5, 0.5]])
    array([[0.9 , 0.1 ], [0.45, 0.55]])
    """

    rates: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        _settle(self, "rates", 2)
        matrix = np.array(self.rates)
        if matrix.min() < 0 or np.abs(matrix.sum(axis=1) - 1).max() > SUM_TOLERANCE:
            raise ParameterError("rates must not be negative, and each row of them must sum to 1.")

    @property
    def n_classes(self) -> int:
        """Number of rows of the rates."""
        return len(self.rates)

    def _map(self, rows: Matrix) -> Matrix:
        return np.asarray(rows @ np.array(self.rates))


@dataclass(frozen=True)
class RotationMap(CalibrationMap):
    r"""Rotation of the simplex about its centre: each class gains from the next one and loses to the previous one.

    .. math:: c_k(p) = p_k \, \bigl(1 + a \, (p_{k+1} - p_{k-1})\bigr), \qquad k \text{ modulo } K

    Parameters
    ----------
    strength : float, default=0.5
        :math:`a` from -1 to 1; the sign is the direction of rotation.

    Notes
    -----
    Corners are fixed points, and zeros stay zeros. If all classes have the same concentration, the errors cancel given any
    single probability, including the largest. Such a classifier is classwise and confidence-calibrated, but wrong almost
    everywhere. For two classes, where each is both the next and the previous one, the map is the identity.

    Examples
    --------
    >>> RotationMap(0.5)([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    array([[0.525, 0.255, 0.22 ], [1.   , 0.   , 0.   ]])
    """

    strength: float = 0.5

    def __post_init__(self) -> None:
        if not is_number(self.strength) or not -1 <= self.strength <= 1:
            raise ParameterError(f"strength must be a number from -1 to 1, not {self.strength!r}.")

    def _map(self, rows: Matrix) -> Matrix:
        lead = np.roll(rows, -1, axis=1) - np.roll(rows, 1, axis=1)
        return np.asarray(rows * (1 + self.strength * lead))


@dataclass(frozen=True)
class WavesMap(CalibrationMap):
    r"""Odds that oscillate around the predicted ones, too high for some probabilities and too low for others.

    .. math:: c_k(p) \propto p_k \, e^{a \sin(2 \pi f p_k)}

    Parameters
    ----------
    strength : float, default=0.5
        :math:`a`, of either sign.
    frequency : float, default=1.0
        :math:`f > 0`, the number of periods from 0 to 1.

    Examples
    --------
    >>> WavesMap(1.0)([[0.75, 0.25], [0.5, 0.5]]).round(4)                # 3 to e^2
    array([[0.2888, 0.7112], [0.5   , 0.5   ]])
    """

    strength: float = 0.5
    frequency: float = 1.0

    def __post_init__(self) -> None:
        if not is_number(self.strength) or not abs(self.strength) <= LARGEST:
            raise ParameterError(
                f"strength must be a number of at most {LARGEST:g} in size, not {self.strength!r}."
            )
        if not is_number(self.frequency) or not 0 < self.frequency <= LARGEST:
            raise ParameterError(
                f"frequency must be a positive number of at most {LARGEST:g}, not {self.frequency!r}."
            )

    def _map(self, rows: Matrix) -> Matrix:
        with np.errstate(divide="ignore"):
            scores = np.log(rows)
        scores += self.strength * np.sin(2 * np.pi * self.frequency * rows)
        return np.asarray(softmax(scores))


def _settle(owner: Any, name: str, n_dimensions: int, length: int | None = None) -> None:
    """Convert a parameter to a tuple, or a square tuple of tuples, of floats; raise on anything else."""
    array = real_array(getattr(owner, name))
    shape = "a square of" if n_dimensions == 2 else "a row of" if length is None else f"{length}"
    # Written so that NaN is rejected as well.
    wrong = array is None or array.ndim != n_dimensions or not (np.abs(array) <= LARGEST).all()
    if wrong or array is None or len(array) < 2 or (n_dimensions == 2 and array.shape[0] != array.shape[1]):
        raise ParameterError(
            f"{name} must be {shape} numbers of at most {LARGEST:g} in size, for two classes or more."
        )
    if length is not None and len(array) != length:
        raise ParameterError(f"{name} must be {length} numbers, one per class, not {len(array)}.")
    plain = array.tolist()
    object.__setattr__(owner, name, tuple(map(tuple, plain)) if n_dimensions == 2 else tuple(plain))


@dataclass(frozen=True)
class RegionMap(CalibrationMap):
    r"""Calibration map with jumps: the simplex is divided into regions, each pulled towards its own point.

    .. math:: c(p) = (1 - a) \, p + a \, q_{r(p)}, \qquad r(p) = \arg\min_r \lVert p - m_r \rVert

    with centres :math:`m_r` and points :math:`q_r` drawn uniformly from the simplex.

    Parameters
    ----------
    n_regions : int, default=12
        Number of regions.
    strength : float, default=0.3
        :math:`a` from 0 to 1; at 1 the true probabilities are constant in every region.
    random_state : int, default=0
        Seed of the centres and points.

    Notes
    -----
    Costs O(n K n_regions) time, and memory for one block of rows by regions.

    Examples
    --------
    >>> RegionMap(1, strength=1.0)([[1.0, 0.0, 0.0], [0.2, 0.5, 0.3]]).round(3)          # one region, one answer
    array([[0.001, 0.252, 0.747],
           [0.001, 0.252, 0.747]])
    """

    n_regions: int = 12
    strength: float = 0.3
    random_state: int = 0

    def __post_init__(self) -> None:
        check_whole("n_regions", self.n_regions)
        check_whole("random_state", self.random_state, 0)
        if not is_number(self.strength) or not 0 <= self.strength <= 1:
            raise ParameterError(f"strength must be a number from 0 to 1, not {self.strength!r}.")

    def _map(self, rows: Matrix) -> Matrix:
        even = np.ones(rows.shape[1])
        generator = np.random.default_rng(self.random_state)
        centres = generator.dirichlet(even, self.n_regions)
        points = generator.dirichlet(even, self.n_regions)
        squares = np.einsum("rk,rk->r", centres, centres)
        result = np.empty_like(rows)
        for block in row_blocks(len(rows), self.n_regions):
            nearest = (squares - 2 * (rows[block] @ centres.T)).argmin(axis=1)
            result[block] = (1 - self.strength) * rows[block] + self.strength * points[nearest]
        return result


@dataclass(frozen=True)
class BlendedMap(CalibrationMap):
    r"""Interpolation between the identity and another map.

    .. math:: c(p) = (1 - a) \, p + a \, c'(p)

    Parameters
    ----------
    calibration_map : CalibrationMap
        :math:`c'`.
    strength : float, default=0.5
        :math:`a` from 0, the identity, to 1, the map itself.

    Examples
    --------
    >>> from calibrant.synthetic import TemperatureMap
    >>> BlendedMap(TemperatureMap(2.0), 0.2)([[0.9, 0.1]])
    array([[0.87, 0.13]])
    """

    calibration_map: CalibrationMap
    strength: float = 0.5

    def __post_init__(self) -> None:
        _check_map(self.calibration_map)
        if not is_number(self.strength) or not 0 <= self.strength <= 1:
            raise ParameterError(f"strength must be a number from 0 to 1, not {self.strength!r}.")

    @property
    def n_classes(self) -> int | None:
        """Number of classes of the inner map."""
        return self.calibration_map.n_classes

    def _map(self, rows: Matrix) -> Matrix:
        return (1 - self.strength) * rows + self.strength * self.calibration_map(rows)


@dataclass(frozen=True)
class ComposedMap(CalibrationMap):
    r"""Composition of several maps.

    .. math:: c(p) = c_m(\dots c_2(c_1(p)))

    Parameters
    ----------
    calibration_maps : tuple of CalibrationMap
        :math:`c_1, \dots, c_m`, the first one applied first.

    Examples
    --------
    >>> from calibrant.synthetic import TemperatureMap
    >>> ComposedMap((TemperatureMap(4.0), TemperatureMap(0.5)))([[0.9, 0.1]])
    array([[0.75, 0.25]])
    """

    calibration_maps: tuple[CalibrationMap, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "calibration_maps", tuple(self.calibration_maps))
        if not self.calibration_maps:
            raise ParameterError("calibration_maps must contain at least one map.")
        for calibration_map in self.calibration_maps:
            _check_map(calibration_map)
        if len({part.n_classes for part in self.calibration_maps} - {None}) > 1:
            raise ParameterError("calibration_maps must all be for the same number of classes.")

    @property
    def n_classes(self) -> int | None:
        """Number of classes of the maps that are not for any number."""
        return next((part.n_classes for part in self.calibration_maps if part.n_classes is not None), None)

    def _map(self, rows: Matrix) -> Matrix:
        for calibration_map in self.calibration_maps:
            rows = calibration_map(rows)
        return rows


def _check_map(calibration_map: object) -> None:
    if not isinstance(calibration_map, CalibrationMap):
        raise ParameterError(f"only a CalibrationMap can be combined with others, not {calibration_map!r}.")


MIXED_MAP = ComposedMap(
    (
        ClassTemperaturesMap((1.3, 1.1, 1.2), (0.1, 0.0, -0.1)),
        RotationMap(0.4),
        ConfusionMap(((0.96, 0.02, 0.02), (0.01, 0.98, 0.01), (0.04, 0.04, 0.92))),
    )
)
"""A different degree of overconfidence per class, a rotation, and label confusion.

Losses and errors are similar to those of the synthetic task of :cite:`valk2022`, whose map was fitted to five
million images. One temperature corrects a part, an affine map of the log-probabilities more, and neither all of it.
"""
