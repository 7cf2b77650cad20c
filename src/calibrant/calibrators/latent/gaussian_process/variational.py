"""Variational bound of the latent Gaussian process and its gradient."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.sparse import csr_array

from calibrant.arrays import FloatArray, Matrix, Vector
from calibrant.calibrators.latent.gaussian_process.latent_function import (
    KernelGradient,
    KernelParameters,
    WhitenedFeatures,
)
from calibrant.numerics.interpolated import STENCIL, EvenGrid
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.row_blocks import BlockSums

__all__ = ["Bound", "NormalPrior", "SpreadBlock", "SpreadRows", "VariationalBound", "score_range"]


# Terms of a softmax below exp of this, times the largest, are left out.
NEGLIGIBLE = -60.0

# Numbers in the matrices of all rows that are kept from pass to pass; beyond that they are recomputed in each.
NUMBERS_KEPT = 2**24

# What a number of a matrix counts when rows are parted into blocks: blocks of about 130,000 numbers.
BYTES_PER_NUMBER = 2


class SpreadBlock(NamedTuple):
    """Matrices of some rows, (rows, G) each, dense or sparse; once with the exponentials and once with their squares."""

    rows: slice
    once: Any
    twice: Any


class SpreadRows:
    r"""Sums over the softmax of every row, for latent functions that are given on a grid.

    A latent value is :math:`\beta e_{ik} + \delta(z_{ik})`, with known exponents e and a smooth function
    :math:`\delta` of the score z that is known at the nodes t of a grid. For smooth functions f and local
    cubics :math:`\omega_j` through the nodes

    .. math:: \sum_k e^{\beta (e_{ik} - \max_l e_{il})} f(z_{ik}) \approx \sum_j H_{ij} f(t_j), \qquad
              H_{ij} = \sum_k e^{\beta (e_{ik} - \max_l e_{il})} \, \omega_j(z_{ik}),

    in which H is the same for all f: what depends on the latent function is computed at the nodes alone, of which there
    are some hundreds, whatever n and K. A second matrix with the squares of the exponentials serves sums of squares.

    Parameters
    ----------
    places : ndarray of shape (n, K)
        Scores z.
    exponents : ndarray of shape (n, K)
        e; the scores themselves, or the logarithms of probabilities.
    slope : float
        :math:`\beta`.
    labels : ndarray of shape (n,)
    weights : ndarray of shape (n,)
    grid : EvenGrid

    Attributes
    ----------
    label_constant : float
        Weighted sum of :math:`\beta (e_{iy} - \max_l e_{il})` over rows, for labels y.
    label_nodes : ndarray of shape (G,)
        Weights at the nodes whose product with :math:`\delta(t)` is the weighted sum of :math:`\delta(z_{iy})`.

    Notes
    -----
    For few classes H is sparse with four entries for every score; for many it is dense with one entry for every
    node. Sets of more than 16 million entries are spread again in every pass, so that memory stays bounded.
    """

    def __init__(
        self,
        places: FloatArray,
        exponents: FloatArray,
        slope: float,
        labels: NDArray[np.intp],
        weights: Vector,
        grid: EvenGrid,
    ) -> None:
        self.weights, self.grid = weights, grid
        self._places, self._exponents, self._slope = places, exponents, slope
        self._tops = row_maxima(exponents).astype(np.float64)
        own = np.arange(len(labels)), labels
        self.label_constant = slope * float(weights @ (exponents[own] - self._tops))
        first, shares = grid.stencil(places[own].astype(np.float64))
        self.label_nodes = _summed(first, weights[:, np.newaxis] * shares, grid.n_nodes)
        # A full matrix is worked with faster than a sparse one with half as many entries.
        self._is_dense = 2 * STENCIL * places.shape[1] >= grid.n_nodes
        self._width = grid.n_nodes if self._is_dense else STENCIL * places.shape[1]
        self._kept: dict[int, SpreadBlock] | None = (
            {} if places.shape[0] * self._width <= NUMBERS_KEPT else None
        )
        self._sums: BlockSums | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Open the threads for many passes."""
        try:
            with BlockSums.over(len(self._places), self._width, BYTES_PER_NUMBER) as self._sums:
                yield
        finally:
            self._sums = None

    def total(self, contribution: Callable[[SpreadBlock], Vector]) -> Vector:
        """Return the sum of what all blocks contribute."""
        if self._sums is None:
            with self.open():
                return self.total(contribution)
        return self._sums(lambda rows: contribution(self._block(rows)))

    def _block(self, rows: slice) -> SpreadBlock:
        if self._kept is None:
            return self._made(rows)
        if rows.start not in self._kept:
            self._kept[rows.start] = self._made(rows)
        return self._kept[rows.start]

    def _made(self, rows: slice) -> SpreadBlock:
        gaps = self._exponents[rows] - self._tops[rows, np.newaxis]
        exponentials = np.exp(self._slope * gaps)
        exponentials[~_matters(gaps, self._slope)] = 0.0
        first, once = self.grid.stencil(self._places[rows].astype(np.float64))
        once *= exponentials[..., np.newaxis]
        twice = once * exponentials[..., np.newaxis]
        n_rows, n_nodes = len(gaps), self.grid.n_nodes
        if self._is_dense:
            first += n_nodes * np.arange(n_rows)[:, np.newaxis]
            shape = (n_rows, n_nodes)
            return SpreadBlock(
                rows,
                _summed(first.ravel(), once.reshape(-1, STENCIL), n_rows * n_nodes).reshape(shape),
                _summed(first.ravel(), twice.reshape(-1, STENCIL), n_rows * n_nodes).reshape(shape),
            )
        columns = (first[..., np.newaxis] + np.arange(STENCIL)).astype(np.int32).ravel()
        starts = np.arange(0, columns.size + 1, self._width, dtype=np.int32)
        return SpreadBlock(
            rows,
            csr_array((once.ravel(), columns, starts), shape=(n_rows, n_nodes)),
            csr_array((twice.ravel(), columns, starts), shape=(n_rows, n_nodes)),
        )


def score_range(
    places: FloatArray, exponents: FloatArray, slope: float, labels: NDArray[np.intp]
) -> tuple[float, float]:
    """Return the least and the largest score but for those that no softmax would see."""
    tops = row_maxima(exponents)[:, np.newaxis]
    own = places[np.arange(len(labels)), labels]
    low = float(places.min(where=_matters(exponents - tops, slope), initial=np.inf))
    return min(low, float(own.min())), float(places.max())


def _matters(gaps: FloatArray, slope: float) -> NDArray[np.bool_]:
    """Tell which terms count, at this slope or at the slope of one that latent functions return to."""
    matters: NDArray[np.bool_] = min(slope, 1.0) * gaps >= NEGLIGIBLE
    return matters


def _summed(first: NDArray[np.intp], shares: NDArray[np.float64], length: int) -> Vector:
    """Add shares (m, 4) to four nodes each, from the first one on."""
    total = np.zeros(length)
    for offset in range(STENCIL):
        total += np.bincount(first + offset, shares[:, offset], minlength=length)
    return total


class NormalPrior(NamedTuple):
    """Normal distribution of the whitened inducing variables before the rows are seen.

    The Hessian is that of the loss of their mean. It equals the precision, the inverse covariance, unless the latent values
    of a row are treated as independent.
    """

    mean: Vector
    hessian: Matrix
    precision: Matrix

    @classmethod
    def standard(cls, n_inducing: int) -> Self:
        """Return that of the Gaussian process itself."""
        return cls(np.zeros(n_inducing), np.eye(n_inducing), np.eye(n_inducing))


class Bound(NamedTuple):
    """Value of the bound, its derivatives, and the distribution of the whitened inducing variables.

    The precision is the inverse of the covariance.
    """

    value: float
    of_values: Vector
    of_kernel: KernelGradient
    mean: Vector
    covariance: Matrix
    precision: Matrix


class _Softmax(NamedTuple):
    """What the softmax of all rows comes to at the nodes, and row by row what a second pass needs."""

    log_partition: float  # sum over rows
    once: Vector  # (G,) weights over partition functions
    twice: Vector  # (G,) weights over their squares
    partition: Vector  # (n,)
    means: Matrix | None  # (n, M) of the features under the softmax of a row, if asked for
    products_of_means: Matrix  # (M, M) weighted sum of their outer products, else (0, 0)


class VariationalBound:
    r"""Variational bound of the evidence of one latent function g with a softmax link, to second order :cite:`wenger2020`.

    With whitened inducing variables :math:`v \sim N(0, I)`, :math:`g(t) = \mu(t) + a(t)^\top v` and a rest of variance
    r(t) (:class:`~calibrant.calibrators.latent.gaussian_process.latent_function.WhitenedFeatures`), and :math:`q(v) = N(m, S)`,

    .. math:: \mathrm{ELBO} = \sum_i w_i \Bigl[\ln \sigma_{y_i} - \tfrac12 \bigl(\mathrm{diag}(C_i)^\top \sigma
              - \sigma^\top C_i \sigma\bigr)\Bigr] - \mathrm{KL}\bigl(N(m, S) \,\|\, N(0, I)\bigr),

    where :math:`\sigma = \mathrm{softmax}(\varphi_i)` at the mean :math:`\varphi_i` of the latent values of row i,
    :math:`C_i` is their covariance, and the square bracket is the expectation of the log-likelihood to second order.

    *No bound, strictly.* The expectation that it approximates would make this a lower bound of the logarithm of the
    evidence. Its second order may lie above the expectation or below, so this may exceed the evidence by what
    higher orders amount to; where deviations of latent values are small that is little.

    *S is solved for.* The approximation is linear in S but for the logarithm of its determinant: with
    :math:`B = \sum_i w_i A_i^\top (\mathrm{diag}(\sigma) - \sigma\sigma^\top) A_i`, for rows :math:`a(z_{ik})` of
    :math:`A_i`, it is largest at :math:`S = (I + B)^{-1}`, where

    .. math:: \mathrm{ELBO} = \sum_i w_i \ln \sigma_{y_i} - \tfrac12 |m|^2
              - \tfrac12 \sum_{i,k} w_i\, r_{ik}\, \sigma_k (1 - \sigma_k) - \tfrac12 \ln\det(I + B).

    So no other S, diagonal ones as in the authors' program included, makes the approximation higher, and there is nothing
    to search for; of the bound itself that need not be true. With a diagonal covariance of a row
    :math:`\mathrm{diag}(\sigma) - \sigma\sigma^\top` becomes
    :math:`\mathrm{diag}(\sigma(1 - \sigma))`.

    *Full covariance.* The part that inducing variables explain is taken with all covariances, the rest
    r as independent between the classes of a row. That changes the bound by less than
    :math:`\tfrac12 \sum_{i,k} w_i r_{ik} \sigma_k`, which vanishes as inducing points are added.

    Parameters
    ----------
    rows : SpreadRows
    prior_gap : ndarray of shape (G,)
        Prior mean at the nodes less what the rows contain already.
    full : bool
        Whether the latent values of a row are taken with all their covariances.
    earlier : NormalPrior, optional
        Posterior of the inducing variables given earlier rows, which replaces their prior N(0, I): the bound is then that of
        these rows given the earlier ones, up to half the log-determinant of its precision :cite:`bui2017`.

    Notes
    -----
    The mean is given by its values at the inducing points: what the data say about them does not change with the
    kernel, whereas whitened values would stand for another function. A call costs six products of the rows' matrices
    with vectors, and for the full covariance three with M columns; O(G M^2) besides.
    """

    def __init__(
        self, rows: SpreadRows, prior_gap: Vector, *, full: bool, earlier: NormalPrior | None = None
    ) -> None:
        self.rows = rows
        self.prior_gap = prior_gap
        self.full = full
        self.earlier = earlier
        self.nodes = rows.grid.nodes

    def __call__(self, values: Vector, parameters: KernelParameters) -> Bound:
        """Return the bound for a mean that has these values above the prior mean at the inducing points."""
        kernel = WhitenedFeatures.at(self.nodes, parameters)
        features, rest = kernel.features, kernel.rest
        mean = kernel.whitened(values)
        added = features @ mean + self.prior_gap
        added -= added.max()  # lost in the softmax; without it exponentials cannot overflow
        raised = np.exp(added)
        softmax = self._softmax(raised, features if self.full else None)

        spread = raised * softmax.once
        single = spread - raised * raised * softmax.twice  # of sigma (1 - sigma)
        prior = NormalPrior.standard(len(mean)) if self.earlier is None else self.earlier
        precision = _curvature(raised, softmax, features) + prior.precision
        factor = np.linalg.cholesky(precision)
        covariance: Matrix = cho_solve((factor, True), np.eye(len(mean)), check_finite=False)
        away = mean - prior.mean
        pull = prior.hessian @ away

        value = self.rows.label_constant + float(self.rows.label_nodes @ added) - softmax.log_partition
        value -= 0.5 * float(away @ pull + single @ rest) + float(np.log(np.diag(factor)).sum())

        # At the best S its own derivative is zero, so S is held fixed from here on.
        carried = features @ covariance
        explained = np.einsum("jm,jm->j", carried, features)
        of_raised, of_features = self._pulled_back(raised, softmax, kernel, carried, explained, covariance)
        of_features -= (single if softmax.means is None else spread)[:, np.newaxis] * carried
        of_function = self.rows.label_nodes + raised * of_raised
        of_features += np.outer(of_function, mean)
        of_mean = features.T @ of_function - pull
        of_values, of_kernel = kernel.pulled_back(of_features, -0.5 * single, of_mean, mean)
        return Bound(value, of_values, of_kernel, mean, covariance, precision)

    def information(self, function: Vector) -> Vector:
        """Return how much the rows say about the latent value at every node, (G,), near a function above the prior."""
        raised = self._raised(function)
        softmax = self._softmax(raised, None)
        return np.maximum(raised * softmax.once - raised * raised * softmax.twice, 0.0)

    def shares(self, function: Vector) -> Vector:
        """Return what the softmax of all rows gives to every node, (G,), for a function above the prior."""
        raised = self._raised(function)
        return raised * self._softmax(raised, None).once

    def curvature(self, function: Vector, columns: Matrix, *, full: bool) -> Matrix:
        """Return B for features in these columns, (G, M), at a function above the prior that is given at the nodes."""
        raised = self._raised(function)
        return _curvature(raised, self._softmax(raised, columns if full else None), columns)

    def _raised(self, function: Vector) -> Vector:
        """Return exponentials of what a function above the prior adds to the rows, but for a constant factor."""
        added = function + self.prior_gap
        raised: Vector = np.exp(added - added.max())
        return raised

    def _softmax(self, raised: Vector, features: Matrix | None) -> _Softmax:
        rows, n_nodes = self.rows, len(raised)
        partition = np.empty(len(rows.weights))
        means = weighted = None
        if features is not None:
            means = np.empty((len(partition), features.shape[1]))
            weighted = raised[:, np.newaxis] * features

        def contribution(block: SpreadBlock) -> Vector:
            own = block.once @ raised
            partition[block.rows] = own
            weights = rows.weights[block.rows]
            share = weights / own
            parts = [[weights @ np.log(own)], block.once.T @ share, block.twice.T @ (share / own)]
            if means is not None:
                own_means = (block.once @ weighted) / own[:, np.newaxis]
                means[block.rows] = own_means
                parts.append((own_means.T @ (weights[:, np.newaxis] * own_means)).ravel())
            return np.concatenate(parts)

        log_partition, once, twice, products = np.split(
            rows.total(contribution), [1, 1 + n_nodes, 1 + 2 * n_nodes]
        )
        width = 0 if features is None else features.shape[1]
        return _Softmax(
            float(log_partition[0]), once, twice, partition, means, products.reshape(width, width)
        )

    def _pulled_back(
        self,
        raised: Vector,
        softmax: _Softmax,
        kernel: WhitenedFeatures,
        carried: Matrix,
        explained: Vector,
        covariance: Matrix,
    ) -> tuple[Vector, Matrix]:
        """Return derivatives in exp(function), and in the features as far as they enter through means of rows."""
        rows, n_nodes, width = self.rows, *carried.shape
        of_single = kernel.rest + explained if softmax.means is None else kernel.rest
        weighted, weighted_twice = raised * (kernel.rest + explained), raised * raised * of_single

        def contribution(block: SpreadBlock) -> Vector:
            own = softmax.partition[block.rows]
            share = rows.weights[block.rows] / own
            slope = (block.once @ weighted) / own - 2.0 * (block.twice @ weighted_twice) / own**2
            if softmax.means is None:
                pulled: Vector = block.once.T @ (share * slope)
                return pulled
            means = softmax.means[block.rows]
            carried_means = means @ covariance
            slope -= 2.0 * np.einsum("im,im->i", carried_means, means)
            towards = block.once.T @ (share[:, np.newaxis] * np.column_stack([slope, carried_means]))
            return np.asarray(towards.T).ravel()

        sums = rows.total(contribution).reshape(-1, n_nodes)
        of_raised = 0.5 * sums[0] - softmax.once * (1.0 + 0.5 * (kernel.rest + explained))
        of_raised += raised * of_single * softmax.twice
        if softmax.means is None:
            return of_raised, np.zeros((n_nodes, width))
        towards = sums[1:].T
        of_raised += np.einsum("jm,jm->j", kernel.features, towards)
        return of_raised, raised[:, np.newaxis] * towards


def _curvature(raised: Vector, softmax: _Softmax, columns: Matrix) -> Matrix:
    """Return B: of rows as a whole if their means are known, else as if all latent values were independent."""
    spread = raised * softmax.once
    if softmax.means is None:
        spread -= raised * raised * softmax.twice
        return columns.T @ (spread[:, np.newaxis] * columns)
    curvature: Matrix = columns.T @ (spread[:, np.newaxis] * columns) - softmax.products_of_means
    return curvature
