"""Calibeating: correct the miscalibration of an online forecaster per bin, for any sequence of outcomes."""

from bisect import bisect_right
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, IntArray, Matrix, Vector
from calibrant.errors import ParameterError
from calibrant.online.event_stream import OnlineForecaster, decay_per_row
from calibrant.online.online_logistic import OnlineBeta, OnlineLogistic, OnlinePlatt
from calibrant.options import check_flag, check_half_life, check_not_negative, is_number, random_source
from calibrant.predictions import Predictions

__all__ = ["Calibeating", "FosterForecaster"]


# Limit for forecasts that count as a row of their bin, so that no announced probability is exactly 0 or 1.
FLOOR = 1e-6


class Calibeating(OnlineForecaster):
    r"""Calibeating: replace each forecast by the event frequency among earlier forecasts in the same bin.

    .. math:: \hat q_t = \frac{\lambda f_t + \sum_{s < t,\; f_s \in b} y_s}{\lambda + N_b} \qquad
              \text{for } f_t \in b

    with bins b of equal width and the forecast :math:`f_t` of another method, usually :class:`OnlinePlatt`. This
    keeps the refinement of that method and removes its calibration error :cite:`foster2023,gupta2023`. The forecast itself
    counts as :math:`\lambda` rows of its bin.

    Parameters
    ----------
    online : OnlinePlatt, OnlineBeta or None
        Online calibrator whose forecasts are corrected, updated with every row; None to correct the forecasts as given.
    width : float, default=0.1
        Width of the bins; one divided by an integer. A forecast on an edge belongs to the bin above.
    smoothing : float, default=1.0
        :math:`\lambda`. With 0, the form of the papers, a bin whose outcomes were all equal announces exactly 0 or 1,
        and the log-loss is infinite when the other outcome occurs.
    hedged : bool, default=False
        Announce the centre of one of the cells of this width instead of the frequency itself, chosen in every bin such that
        announcements are calibrated against an adversary. The choice is randomised where needed, see the notes.
    half_life : float, optional
        Number of rows after which earlier rows of the bins count half. The guarantees hold without it.
    random_state : int, Generator or None, default=0
        Seed or random generator of the randomised choices.

    Attributes
    ----------
    n_rows : int
        Number of rows so far.

    Notes
    -----
    *Tracking* (not hedged). For any sequence of outcomes the squared error is at most that of the best constants for
    the bins in hindsight, plus a logarithmic term :cite:`foster2023`. With B bins of width w and without smoothing

    .. math:: \sum_t (\hat q_t - y_t)^2 \le \min_c \sum_t (c_{b(t)} - y_t)^2 + B (1 + \ln T),

    so the calibration error of f is removed at the resolution of the bins. The regret is the difference of online and final
    means, :math:`\sum_n (y_n - \bar y_{n-1})^2 / n` over the rows of a bin. With :math:`\lambda = 1` the last term is
    :math:`B (1 + 2 w) (1 + \ln (T + 1))`: a constant forecast is one additional row, for which the best constant may be
    wrong by one, and forecasts that differ by up to w change the n-th announcement of a bin by up to w / n.

    *Hedged.* Suppose outcomes do not depend on the random choice for their own row. The expected calibration error, over
    each pair of bin and announced value, is then at most :math:`\epsilon / 2 + 1 / (\epsilon \sqrt T)` after T rows with
    width :math:`\epsilon`, for any sequence; see ``FosterForecaster``. No deterministic method can guarantee that. It
    reduces sharpness slightly.

    A row costs a few microseconds; memory is a few numbers per bin.

    Examples
    --------
    Forecasts of 0.3 and 0.8 for events that occur in 6 and 4 of 10 cases:

    >>> generator = np.random.default_rng(0)
    >>> p = generator.choice([0.3, 0.8], 2000)
    >>> y = generator.random(2000) < np.where(p == 0.3, 0.6, 0.4)
    >>> calibeating = Calibeating(None)
    >>> forecasts = calibeating.update(p, y)
    >>> calibeating.predict_proba([0.3, 0.8])[:, 1].round(2)
    array([0.62, 0.42])
    """

    def __init__(
        self,
        online: OnlineLogistic | None = None,
        *,
        width: float = 0.1,
        smoothing: float = 1.0,
        hedged: bool = False,
        half_life: float | None = None,
        random_state: Any = 0,
    ) -> None:
        if online is not None and not isinstance(online, OnlineLogistic):
            raise ParameterError(f"online must be OnlinePlatt(), OnlineBeta() or None, not {online!r}.")
        if not is_number(width) or not 0 < width <= 0.5 or abs(round(1 / width) * width - 1) > 1e-6:
            raise ParameterError(f"width must be one divided by an integer, such as 0.1, not {width!r}.")
        check_not_negative("smoothing", smoothing, "such as 1")
        check_flag("hedged", hedged)
        check_half_life(half_life)
        self.online = online
        self.width, self.smoothing = float(width), float(smoothing)
        self.hedged = bool(hedged)
        self.half_life = None if half_life is None else float(half_life)
        self.n_rows = 0
        self._random = random_source(random_state)
        n_bins = round(1 / width)
        self._counts, self._sums = [0.0] * n_bins, [0.0] * n_bins
        self._cells = [FosterForecaster(n_bins) for _ in range(n_bins)]

    def _forecasts(self, predictions: Predictions) -> Matrix:
        """Return announced probabilities; if hedged, they are randomised."""
        forecasts = (
            _probabilities(predictions)
            if self.online is None
            else self.online.predict_proba(predictions)[:, 1]
        )
        bins = self._bins(forecasts).tolist()
        announced = np.array(
            [
                self._announced(place, forecast)[0]
                for place, forecast in zip(bins, forecasts.tolist(), strict=True)
            ]
        )
        return np.column_stack([1 - announced, announced])

    def _process(self, predictions: Predictions, outcomes: NDArray[np.bool_]) -> Vector:
        forecasts = (
            _probabilities(predictions) if self.online is None else self.online.update(predictions, outcomes)
        )
        decay = decay_per_row(self.half_life)
        announced = []
        rows = zip(
            self._bins(forecasts).tolist(),
            forecasts.tolist(),
            outcomes.astype(np.float64).tolist(),
            strict=True,
        )
        for place, forecast, outcome in rows:
            probability, cell = self._announced(place, forecast)
            announced.append(probability)
            if self.hedged:
                self._cells[place].update(cell, outcome, decay)
            if decay < 1:
                self._counts = [count * decay for count in self._counts]
                self._sums = [total * decay for total in self._sums]
            self._counts[place] += 1.0
            self._sums[place] += outcome
        return np.array(announced, dtype=np.float64)

    def state(self) -> dict[str, Any]:
        """Return the state as plain numbers, lists and dictionaries, for :meth:`from_state`."""
        return {
            "kind": "Calibeating",
            "online": None if self.online is None else self.online.state(),
            "width": self.width,
            "smoothing": self.smoothing,
            "hedged": self.hedged,
            "half_life": self.half_life,
            "random": _plain(self._random.bit_generator.state),
            "n_rows": self.n_rows,
            "counts": list(self._counts),
            "sums": list(self._sums),
            "cell_counts": [list(cells.counts) for cells in self._cells],
            "cell_sums": [list(cells.sums) for cells in self._cells],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Restore a state returned by :meth:`state`, including the random generator."""
        if not isinstance(state, dict) or state.get("kind") != "Calibeating":
            raise ParameterError("this is not a state of Calibeating.")
        online: OnlineLogistic | None = None
        if state["online"] is not None:
            kinds: dict[str, type[OnlineLogistic]] = {"OnlinePlatt": OnlinePlatt, "OnlineBeta": OnlineBeta}
            online = kinds[state["online"]["kind"]].from_state(state["online"])
        made = cls(online, **{name: state[name] for name in ("width", "smoothing", "hedged", "half_life")})
        algorithm: Any = getattr(np.random, state["random"]["bit_generator"])
        made._random = random_source(0, algorithm)
        made._random.bit_generator.state = _as_arrays(state["random"])
        made.n_rows = int(state["n_rows"])
        made._counts, made._sums = list(state["counts"]), list(state["sums"])
        for cells, counts, sums in zip(made._cells, state["cell_counts"], state["cell_sums"], strict=True):
            cells.counts, cells.sums = list(counts), list(sums)
        return made

    def __repr__(self) -> str:
        return f"Calibeating({self.online!r}, {self.n_rows} rows)"

    def _bins(self, forecasts: FloatArray) -> IntArray:
        """Return the bin of every forecast, compared with edges in its own float type, in which 0.7 is an edge too."""
        edges = np.array(self._cells[0].edges).astype(forecasts.dtype)
        return np.clip(np.searchsorted(edges, forecasts, "right") - 1, 0, len(edges) - 2)

    def _announced(self, place: int, forecast: float) -> tuple[float, int]:
        """Return the announced probability for a forecast in this bin, and the number of its cell."""
        count, total = self._counts[place] + self.smoothing, self._sums[place]
        if self.smoothing:
            total += self.smoothing * min(max(forecast, FLOOR), 1 - FLOOR)
        mean = total / count if count > 0 else forecast
        if not self.hedged:
            return mean, 0
        cell = self._cells[place].choice(mean, float(self._random.random()))
        return (cell + 0.5) * self.width, cell


def _probabilities(predictions: Predictions) -> FloatArray:
    return predictions.probabilities[:, 1]


def _plain(value: Any) -> Any:
    """Return the state of a random generator without arrays and numpy scalars."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _as_arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_arrays(part) for name, part in value.items()}
    return np.array(value, dtype=np.uint64) if isinstance(value, list) else value


class FosterForecaster:
    r"""Randomised calibrated forecasts: announce one of the centres :math:`m_i` of equal cells from 0 to 1 in each row.

    For a cell from l to r, with :math:`N` rows announced so far of which :math:`S` had the event, let

    .. math:: E = S - r N, \qquad D = l N - S

    A cell in which neither is positive is announced immediately. If there is none, some cell i with
    :math:`E_i > 0` has a right neighbour with :math:`D_{i+1} > 0`. One of the two is then drawn at random, cell i with
    probability :math:`D_{i+1} / (D_{i+1} + E_i)` :cite:`foster1999`.

    Notes
    -----
    The sum of all :math:`(E_i)_+^2 + (D_i)_+^2` increases by at most one in expectation with each row. Its linear change,
    :math:`2 (y - r_i) [w_i E_i - w_{i+1} D_{i+1}]`, vanishes for these probabilities w and any outcome y, as long
    as y does not depend on the random choice. Hence, with m cells and after T rows,

    .. math:: \frac1T\, \mathbb{E} \sum_i \lvert S_i - m_i N_i \rvert \le \frac1{2m} + \sqrt{\frac mT}.

    Foster's original rule uses the means S/N instead of the sums in its probabilities.

    Examples
    --------
    >>> cells = FosterForecaster(10)
    >>> cells.choice(0.33, 0.5)                # no data yet: the cell of the target itself
    3
    """

    def __init__(self, n_cells: int) -> None:
        self.edges = [cell / n_cells for cell in range(n_cells + 1)]
        self.counts = [0.0] * n_cells
        self.sums = [0.0] * n_cells

    def choice(self, target: float, uniform: float) -> int:
        """Return the cell to announce: the admissible one nearest to a target; ``uniform`` is uniform on [0, 1)."""
        edges, counts, sums = self.edges, self.counts, self.sums
        n_cells = len(counts)
        # Not int(target * n_cells), which puts 0.29 of a hundred cells into cell 28.
        first = min(bisect_right(edges, target), n_cells) - 1
        for cell in sorted(range(n_cells), key=lambda cell: abs(cell - first)):
            count, total = counts[cell], sums[cell]
            if edges[cell] * count <= total <= edges[cell + 1] * count:
                return cell
        pairs = [
            cell for cell in range(n_cells - 1) if self._excess(cell) > 0 and self._deficit(cell + 1) > 0
        ]
        left = min(pairs, key=lambda cell: abs(cell + 0.5 - first))
        excess, deficit = self._excess(left), self._deficit(left + 1)
        return left if uniform * (deficit + excess) < deficit else left + 1

    def update(self, cell: int, outcome: float, decay: float = 1.0) -> None:
        """Add a row to the announced cell; sums of all cells are first multiplied by ``decay``."""
        if decay < 1:
            self.counts = [count * decay for count in self.counts]
            self.sums = [total * decay for total in self.sums]
        self.counts[cell] += 1.0
        self.sums[cell] += outcome

    def _excess(self, cell: int) -> float:
        return self.sums[cell] - self.edges[cell + 1] * self.counts[cell]

    def _deficit(self, cell: int) -> float:
        return self.edges[cell] * self.counts[cell] - self.sums[cell]
