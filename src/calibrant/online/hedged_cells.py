"""Forecasts that are calibrated against an adversary, by randomising between two neighbouring values."""

from bisect import bisect_right

__all__ = ["HedgedCells"]


class HedgedCells:
    r"""Randomised choice of one of the values :math:`m_i`, the centres of equal cells from 0 to 1, in each row.

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
    >>> cells = HedgedCells(10)
    >>> cells.choice(0.33, 0.5)                # no data yet: the cell of the wish itself
    3
    """

    def __init__(self, n_cells: int) -> None:
        self.edges = [cell / n_cells for cell in range(n_cells + 1)]
        self.counts = [0.0] * n_cells
        self.sums = [0.0] * n_cells

    def choice(self, wish: float, coin: float) -> int:
        """Return the cell to announce: the admissible one nearest to a wish; ``coin`` is uniform on [0, 1)."""
        edges, counts, sums = self.edges, self.counts, self.sums
        n_cells = len(counts)
        # Not int(wish * n_cells), which puts 0.29 of a hundred cells into cell 28.
        first = min(bisect_right(edges, wish), n_cells) - 1
        for cell in sorted(range(n_cells), key=lambda cell: abs(cell - first)):
            count, total = counts[cell], sums[cell]
            if edges[cell] * count <= total <= edges[cell + 1] * count:
                return cell
        pairs = [
            cell for cell in range(n_cells - 1) if self._excess(cell) > 0 and self._deficit(cell + 1) > 0
        ]
        left = min(pairs, key=lambda cell: abs(cell + 0.5 - first))
        excess, deficit = self._excess(left), self._deficit(left + 1)
        return left if coin * (deficit + excess) < deficit else left + 1

    def learn(self, cell: int, outcome: float, kept: float = 1.0) -> None:
        """Add a row to the announced cell; sums of all cells are first multiplied by ``kept``."""
        if kept < 1:
            self.counts = [count * kept for count in self.counts]
            self.sums = [total * kept for total in self.sums]
        self.counts[cell] += 1.0
        self.sums[cell] += outcome

    def _excess(self, cell: int) -> float:
        return self.sums[cell] - self.edges[cell + 1] * self.counts[cell]

    def _deficit(self, cell: int) -> float:
        return self.edges[cell] * self.counts[cell] - self.sums[cell]
