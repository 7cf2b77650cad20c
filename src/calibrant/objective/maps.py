"""Score maps: linear in their parameters, so that one pair forward / adjoint gives all derivatives."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from calibrant.arrays import Cube, FloatArray, Matrix, Vector
from calibrant.graph import Value
from calibrant.graph.trace import Trace
from calibrant.numerics.reductions import column_sums, row_maxima, row_sums
from calibrant.numerics.row_blocks import BLOCK_BYTES
from calibrant.numerics.softmax_fisher import SoftmaxFisher
from calibrant.objective.losses import LogisticLoss, Loss
from calibrant.space import Space

if TYPE_CHECKING:
    from calibrant.objective.rows import Block

__all__ = ["DiagonalMap", "EventMap", "FullMap", "LogitMap", "ScalarMap"]


class LogitMap(ABC):
    """Scores u(theta; x) for K classes from features x of a row, linear in theta.

    A map must have ``n_parameters``, ``identity`` and ``traced``. All other methods follow from these;
    a map overrides them where it knows a faster or more accurate form.

    Parameters
    ----------
    n_classes : int
    bias : bool
        Whether every class has an intercept.
    """

    curvature_type: ClassVar[type[Any] | None] = None
    """The kind of ``Curvature`` that suits the map; None for a general one."""

    block_bytes: int | None = None
    """Size of the blocks that suit the map; None for blocks that fit the second-level cache."""

    def __init__(self, n_classes: int, bias: bool = False) -> None:
        self.n_classes = n_classes
        self.bias = bias

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Length of theta."""

    @property
    def score_shape(self) -> tuple[int, ...]:
        """Shape of the scores of one row."""
        return (self.n_classes,)

    @abstractmethod
    def identity(self) -> Vector:
        """Return the theta that gives u = x."""

    @abstractmethod
    def traced(self, theta: Vector, x: Value) -> Value:
        """Return u of symbolic features x: the formula of the map."""

    def forward(self, theta: FloatArray, features: FloatArray, *prepared: Any) -> FloatArray:  # noqa: ARG002
        """Return u, (n, K), as a new array in the float type of ``features``."""
        trace = Trace(features.shape[1])
        scores = self.traced(theta.astype(np.float64, copy=False), trace.input)
        return trace.graph(scores, Space.LOGITS, Space.LOGITS)(features)

    def adjoint(self, cotangent: FloatArray, features: FloatArray, *prepared: Any) -> Vector:
        """Return the sum over rows of the transposed Jacobian times ``cotangent`` (n, K)."""
        units = np.eye(self.n_parameters)
        return np.array(
            [np.vdot(cotangent, self.forward(unit, features, *prepared)) for unit in units], np.float64
        )

    def prepare(self, features: FloatArray) -> tuple[Any, ...]:  # noqa: ARG002
        """Return cached quantities of a block of features, which are passed after them; none by default."""
        return ()

    def lower(self) -> Vector:
        """Return the lower bound of every parameter; minus infinity for none."""
        return np.full(self.n_parameters, -np.inf)

    def jacobian(self, features: FloatArray) -> Cube:
        """Return the derivatives of the scores of every row in the parameters, (n, K, P)."""
        return self.row_directions(features, np.eye(self.n_parameters))

    def row_directions(self, features: FloatArray, changes: Matrix) -> Cube:
        """Return the change of the scores of every row, (n, K, r), for r changes of the parameters, (P, r).

        >>> ScalarMap(2, bias=False).row_directions(np.array([[3.0, 1.0]]), np.array([[1.0, 2.0]]))
        array([[[3., 6.], [1., 2.]]])
        """
        return np.stack([self.forward(change, features) for change in changes.T], axis=2)

    def row_adjoints(self, cotangent: FloatArray, features: FloatArray) -> Matrix:
        """Return the transposed Jacobian of every row times that row of ``cotangent``, (n, P).

        >>> DiagonalMap(2, bias=True).row_adjoints(np.array([[0.5, -0.5]]), np.array([[3.0, 1.0]]))
        array([[ 1.5, -0.5,  0.5, -0.5]])
        """
        adjoints: Matrix = np.einsum("ik,ikp->ip", cotangent, self.jacobian(features))
        return adjoints

    def fisher(self, probabilities: FloatArray, weighted: FloatArray, features: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_i w_i J_i^\top (\mathrm{diag}(p_i) - p_i p_i^\top) J_i`, (P, P).

        Here J is the Jacobian of u in theta, and ``weighted`` is :math:`w_i p_i`. This is the Hessian of the
        cross-entropy.
        """
        jacobian = self.jacobian(features)
        centred = jacobian - np.einsum("ik,ikp->ip", probabilities, jacobian)[:, np.newaxis]
        size = self.n_parameters
        fisher: FloatArray = (centred * weighted[:, :, np.newaxis]).reshape(-1, size).T @ centred.reshape(
            -1, size
        )
        return fisher

    def information(self, probabilities: FloatArray, weights: Vector, features: FloatArray) -> Matrix:
        r"""Return :meth:`fisher` with all digits also for rows that are nearly certain, for inverses.

        :math:`p_k - p_k^2` of a certain row is a difference of nearly equal numbers; here it is :math:`p_k (1 - p_k)`
        with the sum of the other classes as :math:`1 - p_k`.

        >>> sure = np.array([[1.0, 1e-20]])
        >>> DiagonalMap(2, bias=False).information(sure, np.ones(1), np.ones((1, 2)))
        array([[ 1.e-20, -1.e-20], [-1.e-20,  1.e-20]])
        """
        fisher = self.fisher(probabilities, probabilities * weights[:, np.newaxis], features)
        return fisher.astype(np.float64, copy=False)

    def second_order(self, theta: Vector, loss: Loss, block: "Block") -> Vector:
        """Return the sums of loss, gradient (P,) and Hessian (P, P) over a block, one after the other."""
        features = block.features.astype(np.float64, copy=False)
        prepared = block.keep(self, lambda: self.prepare(block.features))
        losses, state, gradients = loss.expand(self.forward(theta, features, *prepared), block.labels)
        value = losses.sum() if block.weights is None else losses @ block.weights
        gradient = self.adjoint(block.weighted(gradients), features, *prepared)
        if loss.fisher_is_hessian:
            hessian = self.fisher(state, block.weighted(state), features)
        else:
            columns = [
                loss.curvature_product(state, block.labels, self.forward(unit, features))
                for unit in np.eye(self.n_parameters)
            ]
            hessian = np.stack([self.adjoint(block.weighted(column), features) for column in columns])
        return np.concatenate([[value], gradient, hessian.ravel()])


class ScalarMap(LogitMap):
    r""":math:`u = \beta x + b`, with :math:`\theta = (\beta, b_1, \dots, b_K)`; without ``bias`` no b."""

    def __init__(self, n_classes: int, bias: bool = False) -> None:
        super().__init__(n_classes, bias)
        # One factor needs no product of matrices, for which blocks would have to be thicker.
        self.block_bytes = None if bias else BLOCK_BYTES

    @property
    def n_parameters(self) -> int:
        return 1 + self.bias * self.n_classes

    def identity(self) -> Vector:
        return np.concatenate([[1.0], np.zeros(self.bias * self.n_classes)])

    def traced(self, theta: Vector, x: Value) -> Value:
        return x.affine(theta[0], theta[1:] if self.bias else 0.0)

    def forward(self, theta: FloatArray, features: FloatArray, *prepared: Any) -> FloatArray:  # noqa: ARG002
        scores: FloatArray = theta[0].astype(features.dtype) * features
        if self.bias:
            scores += theta[1:].astype(features.dtype)
        return scores

    def adjoint(self, cotangent: FloatArray, features: FloatArray, *prepared: Any) -> Vector:  # noqa: ARG002
        slope = np.einsum("ik,ik->", cotangent, features)
        if not self.bias:
            return np.array([slope], dtype=np.float64)
        return np.concatenate([[slope], column_sums(cotangent)]).astype(np.float64)

    def row_directions(self, features: FloatArray, changes: Matrix) -> Cube:
        moved: Cube = features[:, :, np.newaxis] * changes[0]
        return moved + changes[1:] if self.bias else moved

    def row_adjoints(self, cotangent: FloatArray, features: FloatArray) -> Matrix:
        slope: Matrix = np.einsum("ik,ik->i", cotangent, features)[:, np.newaxis]
        return np.hstack([slope, cotangent]) if self.bias else slope

    def fisher(self, probabilities: FloatArray, weighted: FloatArray, features: FloatArray) -> FloatArray:
        moments = weighted * features
        mean = np.einsum("ik,ik->i", probabilities, features)
        slope = np.einsum("ik,ik->", moments, features) - mean @ row_sums(moments)
        if not self.bias:
            return np.array([[slope]])
        mixed = column_sums(moments) - mean @ weighted
        intercepts = np.diag(column_sums(weighted)) - probabilities.T @ weighted
        return np.block([[np.array([[slope]]), mixed[np.newaxis]], [mixed[:, np.newaxis], intercepts]])

    def information(self, probabilities: FloatArray, weights: Vector, features: FloatArray) -> Matrix:
        weighted = probabilities * weights[:, np.newaxis]
        whole = super().information(probabilities, weights, features)
        centred = features - np.einsum("ik,ik->i", probabilities, features)[:, np.newaxis]
        moments = weighted * centred
        whole[0, 0] = np.einsum("ik,ik->", moments, centred)
        if self.bias:
            each = np.arange(self.n_classes) + 1
            whole[each, each] = (weighted * _complements(probabilities)).sum(axis=0)
            whole[0, 1:] = whole[1:, 0] = moments.sum(axis=0)
        return whole

    def second_order(self, theta: Vector, loss: Loss, block: "Block") -> Vector:
        """Return the sums in the float type of the features where one factor is all there is, in one pass."""
        if self.bias:
            return super().second_order(theta, loss, block)
        tops = block.keep("tops", lambda: row_maxima(block.features))
        label_gaps = block.keep(
            "label_gaps", lambda: block.features[np.arange(len(tops)), block.labels] - tops
        )
        gaps = block.features - tops[:, np.newaxis]
        if abs(theta[0]) > np.finfo(gaps.dtype).max:  # of float32 logits that are all tiny
            gaps = gaps.astype(np.float64)
        per_row = loss.along(gaps.dtype.type(theta[0]), gaps, label_gaps)
        if block.weights is None:
            return np.array([part.sum(dtype=np.float64) for part in per_row])
        return np.array([block.weights @ part for part in per_row])


class DiagonalMap(LogitMap):
    r""":math:`u_k = w_k x_k + b_k`, with :math:`\theta = (w_1, \dots, w_K, b_1, \dots, b_K)`; without ``bias`` no b."""

    @property
    def n_parameters(self) -> int:
        return (1 + self.bias) * self.n_classes

    def identity(self) -> Vector:
        return np.concatenate([np.ones(self.n_classes), np.zeros(self.bias * self.n_classes)])

    def traced(self, theta: Vector, x: Value) -> Value:
        return x.affine(theta[: self.n_classes], theta[self.n_classes :] if self.bias else 0.0)

    def forward(self, theta: FloatArray, features: FloatArray, *prepared: Any) -> FloatArray:  # noqa: ARG002
        scores = features * theta[: self.n_classes].astype(features.dtype)
        if self.bias:
            scores += theta[self.n_classes :].astype(features.dtype)
        return scores

    def adjoint(self, cotangent: FloatArray, features: FloatArray, *prepared: Any) -> Vector:  # noqa: ARG002
        slopes: FloatArray = np.einsum("ik,ik->k", cotangent, features)
        if not self.bias:
            return slopes.astype(np.float64)
        return np.concatenate([slopes, column_sums(cotangent)]).astype(np.float64)

    def row_directions(self, features: FloatArray, changes: Matrix) -> Cube:
        moved: Cube = features[:, :, np.newaxis] * changes[: self.n_classes]
        return moved + changes[self.n_classes :] if self.bias else moved

    def row_adjoints(self, cotangent: FloatArray, features: FloatArray) -> Matrix:
        slopes: Matrix = cotangent * features
        return np.hstack([slopes, cotangent]) if self.bias else slopes

    def fisher(self, probabilities: FloatArray, weighted: FloatArray, features: FloatArray) -> FloatArray:
        moments = weighted * features
        outer, weighted_outer = probabilities * features, moments
        if self.bias:
            outer, weighted_outer = np.hstack([outer, probabilities]), np.hstack([moments, weighted])
        fisher: FloatArray = -(outer.T @ weighted_outer)
        slopes = np.arange(self.n_classes)
        fisher[slopes, slopes] += np.einsum("ik,ik->k", moments, features)
        if self.bias:
            intercepts = slopes + self.n_classes
            fisher[intercepts, intercepts] += column_sums(weighted)
            mixed = column_sums(moments)
            fisher[slopes, intercepts] += mixed
            fisher[intercepts, slopes] += mixed
        return fisher

    def information(self, probabilities: FloatArray, weights: Vector, features: FloatArray) -> Matrix:
        whole = super().information(probabilities, weights, features)
        spread = probabilities * weights[:, np.newaxis] * _complements(probabilities)
        moments, slopes = spread * features, np.arange(self.n_classes)
        whole[slopes, slopes] = (moments * features).sum(axis=0)
        if self.bias:
            intercepts = slopes + self.n_classes
            whole[intercepts, intercepts] = spread.sum(axis=0)
            whole[slopes, intercepts] = whole[intercepts, slopes] = moments.sum(axis=0)
        return whole


class FullMap(LogitMap):
    r""":math:`u = W x + b`; :math:`\theta` is the matrix [W | b], (K, K + 1), row by row; without ``bias`` no b."""

    @property
    def n_parameters(self) -> int:
        return self.n_classes * (self.n_classes + self.bias)

    def matrix(self, theta: FloatArray) -> FloatArray:
        """Return theta as the matrix [W | b]."""
        return theta.reshape(self.n_classes, self.n_classes + self.bias)

    def identity(self) -> Vector:
        return np.eye(self.n_classes, self.n_classes + self.bias).ravel()

    def traced(self, theta: Vector, x: Value) -> Value:
        matrix = self.matrix(theta)
        return x.dense(matrix[:, : self.n_classes].T, matrix[:, self.n_classes] if self.bias else None)

    def forward(self, theta: FloatArray, features: FloatArray, *prepared: Any) -> FloatArray:  # noqa: ARG002
        matrix = self.matrix(theta).astype(features.dtype)
        scores: FloatArray = features @ matrix[:, : self.n_classes].T
        if self.bias:
            scores += matrix[:, self.n_classes]
        return scores

    def adjoint(self, cotangent: FloatArray, features: FloatArray, *prepared: Any) -> Vector:  # noqa: ARG002
        gradient = np.empty((self.n_classes, self.n_classes + self.bias))
        gradient[:, : self.n_classes] = cotangent.T @ features
        if self.bias:
            gradient[:, self.n_classes] = column_sums(cotangent)
        return gradient.ravel()

    def row_directions(self, features: FloatArray, changes: Matrix) -> Cube:
        # One product with the matrix of all classes and changes side by side.
        by_feature = changes.reshape(self.n_classes, -1, changes.shape[1]).transpose(1, 0, 2)
        product: Matrix = self._with_ones(features) @ by_feature.reshape(len(by_feature), -1)
        return product.reshape(len(features), self.n_classes, -1)

    def row_adjoints(self, cotangent: FloatArray, features: FloatArray) -> Matrix:
        products: Cube = cotangent[:, :, np.newaxis] * self._with_ones(features)[:, np.newaxis]
        return products.reshape(len(features), -1)

    def fisher(self, probabilities: FloatArray, weighted: FloatArray, features: FloatArray) -> FloatArray:
        features = self._with_ones(features)
        n_rows, n_features = features.shape
        fisher = SoftmaxFisher(self.n_classes, n_features, n_rows, features.dtype)
        return fisher(probabilities.T, weighted.T, features.T)

    def information(self, probabilities: FloatArray, weights: Vector, features: FloatArray) -> Matrix:
        whole = super().information(probabilities, weights, features)
        spread = probabilities * weights[:, np.newaxis] * _complements(probabilities)
        padded = self._with_ones(features)
        blocks = whole.reshape(self.n_classes, padded.shape[1], self.n_classes, -1)
        for column in range(self.n_classes):
            blocks[column, :, column] = (padded * spread[:, [column]]).T @ padded
        return whole

    def _with_ones(self, features: FloatArray) -> FloatArray:
        return np.hstack([features, np.ones((len(features), 1), features.dtype)]) if self.bias else features


class EventMap(LogitMap):
    r"""Log-odds of one event, :math:`u = x^\top \theta`, from a design matrix X, (n, P); u is (n,).

    Parameters
    ----------
    identity : ndarray of shape (P,)
        The theta that leaves the predictions as they are, or another start if there is none.
    lower : ndarray of shape (P,)
        Lower bounds of the parameters.
    bias : bool
        Whether the last column of X is all ones.
    """

    def __init__(self, identity: Vector, lower: Vector, bias: bool = False) -> None:
        super().__init__(2, bias)
        self._identity, self._lower = identity, lower

    @property
    def n_parameters(self) -> int:
        return len(self._identity)

    @property
    def score_shape(self) -> tuple[int, ...]:
        return ()

    def identity(self) -> Vector:
        return self._identity

    def traced(self, theta: Vector, x: Value) -> Value:
        return x.dense(theta[:, np.newaxis])

    def lower(self) -> Vector:
        return self._lower

    def forward(self, theta: FloatArray, features: FloatArray, *prepared: Any) -> FloatArray:  # noqa: ARG002
        scores: FloatArray = features @ theta
        return scores

    def adjoint(self, cotangent: FloatArray, features: FloatArray, *prepared: Any) -> Vector:  # noqa: ARG002
        return np.asarray(cotangent @ features, dtype=np.float64)

    def row_directions(self, features: FloatArray, changes: Matrix) -> Cube:
        """Return the change of both scores of every row: that of the first class is zero."""
        moved = np.zeros((len(features), 2, changes.shape[1]))
        np.matmul(features, changes, out=moved[:, 1])
        return moved

    def row_adjoints(self, cotangent: FloatArray, features: FloatArray) -> Matrix:
        adjoints: Matrix = cotangent[:, np.newaxis] * features
        return adjoints

    def fisher(self, probabilities: FloatArray, weighted: FloatArray, features: FloatArray) -> FloatArray:  # noqa: ARG002
        fisher: FloatArray = (features * weighted[:, np.newaxis]).T @ features
        return fisher

    def information(self, probabilities: FloatArray, weights: Vector, features: FloatArray) -> Matrix:
        """Return the Hessian, exact as it is: ``probabilities`` are the bends of the rows."""
        fisher = self.fisher(probabilities, probabilities * weights, features)
        return fisher.astype(np.float64, copy=False)

    def second_order(self, theta: Vector, loss: Loss, block: "Block") -> Vector:
        if not isinstance(loss, LogisticLoss):
            return super().second_order(theta, loss, block)
        columns = block.features.T
        value, residuals, bends = loss.sums(theta @ columns, block.labels, block.weights)
        bent, size = columns * bends, len(columns)
        sums = np.empty(1 + size + size**2)
        sums[0] = value
        np.matmul(columns, residuals, out=sums[1 : 1 + size])
        # Of matrices as flat as these, products row by row are faster than one with the transpose.
        for row, column in zip(sums[1 + size :].reshape(size, size), columns, strict=True):
            np.matmul(bent, column, out=row)
        return sums


def _complements(probabilities: FloatArray) -> FloatArray:
    """Return one minus every probability; of the largest of a row, the sum of the others."""
    complements = 1 - probabilities
    rows, largest = np.arange(len(probabilities)), probabilities.argmax(axis=1)
    others = probabilities.copy()
    others[rows, largest] = 0.0
    complements[rows, largest] = others.sum(axis=1)
    return complements
