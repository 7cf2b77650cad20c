"""Small fully connected networks with explicit gradients."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.numerics.reductions import column_sums

__all__ = ["Activation", "DenseNetwork", "NetworkRun"]

Activation = Literal["relu", "elu", "tanh"]


@dataclass(frozen=True, eq=False)
class NetworkRun:
    """Outputs of a network for some rows, with the activations for its gradient.

    Attributes
    ----------
    outputs : ndarray of shape (n, n_outputs)
        The last layer, which is linear.
    layers : list of ndarray
        Input of every layer, each (n, width).
    """

    outputs: FloatArray
    layers: list[FloatArray]


@dataclass(frozen=True)
class DenseNetwork:
    r"""Layers :math:`h_{l+1} = a(h_l W_l + b_l)`, the last of them linear, on flat parameters.

    Attributes
    ----------
    widths : tuple of int
        Number of inputs, of the units of each hidden layer, and of outputs; two numbers make a linear map.
    activation : {"relu", "elu", "tanh"}
        The function a, applied entry by entry.

    Notes
    -----
    Value and gradient cost the matrix products of the layers, O(n sum w_l w_{l+1}), and the memory of their
    outputs. Work is done in the float type of the inputs; parameters are float64.

    Examples
    --------
    One rectified unit with its kink at 1, doubled:

    >>> network = DenseNetwork((1, 1, 1))
    >>> theta = np.array([1.0, -1.0, 2.0, 0.0])            # weight and bias of the unit, then of the output
    >>> run = network.run(theta, np.array([[0.0], [3.0]]))
    >>> run.outputs.ravel(), network.gradient(theta, run, np.ones((2, 1)))
    (array([0., 4.]), array([6., 2., 2., 2.]))
    """

    widths: tuple[int, ...]
    activation: Activation = "relu"

    @cached_property
    def shapes(self) -> list[tuple[int, int]]:
        """Rows and columns of the weights of every layer."""
        return list(zip(self.widths[:-1], self.widths[1:], strict=True))

    @property
    def n_parameters(self) -> int:
        """Weights and biases of all layers."""
        return sum((rows + 1) * columns for rows, columns in self.shapes)

    @cached_property
    def is_weight(self) -> NDArray[np.bool_]:
        """Which parameters are weights and not biases, (n_parameters,)."""
        parts = [np.repeat([True, False], [rows * columns, columns]) for rows, columns in self.shapes]
        return np.concatenate(parts)

    def layers(self, theta: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Return weights (rows, columns) and biases (columns,) of every layer, as views of ``theta``."""
        parts, start = [], 0
        for rows, columns in self.shapes:
            middle, end = start + rows * columns, start + (rows + 1) * columns
            parts.append((theta[start:middle].reshape(rows, columns), theta[middle:end]))
            start = end
        return parts

    def start(self, generator: np.random.Generator, outputs: NDArray[np.floating] | float) -> Vector:
        """Return random initial parameters with constant ``outputs``.

        For standardised inputs. The weights of a hidden layer are random with variance 1 / (number of its inputs), and its
        biases are random in the same range, so that no unit is dead or a copy of another. The weights of the last layer are
        zero, and its biases are ``outputs``. The gradient in the last layer is not zero, and after one step no gradient is.
        """
        theta = np.zeros(self.n_parameters)
        for weights, biases in self.layers(theta)[:-1]:
            spread = 1 / np.sqrt(len(weights))
            weights[:] = spread * generator.standard_normal(weights.shape)
            biases[:] = generator.uniform(-1.0, 1.0, len(biases))
        self.layers(theta)[-1][1][:] = outputs
        return theta

    def glorot_start(self, generator: np.random.Generator, bias: float = 0.0) -> Vector:
        r"""Return random initial parameters as in Keras: weights uniform in :math:`\pm\sqrt{6 / (w_l + w_{l+1})}`.

        All biases are zero but that of the last layer, which is ``bias``.
        """
        theta = np.zeros(self.n_parameters)
        layers = self.layers(theta)
        for weights, _ in layers:
            limit = np.sqrt(6 / sum(weights.shape))
            weights[:] = generator.uniform(-limit, limit, weights.shape)
        layers[-1][1][:] = bias
        return theta

    def run(self, theta: Vector, inputs: FloatArray) -> NetworkRun:
        """Return the outputs for ``inputs`` (n, n_inputs)."""
        inside = [inputs]
        parts = self.layers(_in_type(theta, inputs))
        for weights, biases in parts[:-1]:
            units = inside[-1] @ weights
            units += biases
            _IN_PLACE[self.activation](units)
            inside.append(units)
        weights, biases = parts[-1]
        return NetworkRun(inside[-1] @ weights + biases, inside)

    def gradient(self, theta: Vector, run: NetworkRun, slopes: FloatArray) -> Vector:
        """Return the gradient in ``theta`` of a sum whose derivatives in the outputs are ``slopes`` (n, n_outputs)."""
        gradient = np.empty(self.n_parameters)
        parts, own = self.layers(_in_type(theta, slopes)), self.layers(gradient)
        for layer in range(len(parts) - 1, -1, -1):
            own[layer][0][:] = run.layers[layer].T @ slopes
            own[layer][1][:] = column_sums(slopes)
            if layer > 0:
                slopes = slopes @ parts[layer][0].T
                slopes *= _SLOPES[self.activation](run.layers[layer])
        return gradient


def _in_type(theta: Vector, like: FloatArray) -> FloatArray:
    converted: FloatArray = theta.astype(like.dtype, copy=False)
    return converted


def _relu(units: FloatArray) -> None:
    np.maximum(units, 0, out=units)


def _elu(units: FloatArray) -> None:
    np.maximum(units, np.expm1(np.minimum(units, 0)), out=units)


def _tanh(units: FloatArray) -> None:
    np.tanh(units, out=units)


_IN_PLACE: dict[str, Callable[[FloatArray], None]] = {"relu": _relu, "elu": _elu, "tanh": _tanh}

# Derivatives as functions of the output of the activation.
_SLOPES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "relu": lambda units: (units > 0).astype(units.dtype),
    "elu": lambda units: 1 + np.minimum(units, 0),
    "tanh": lambda units: 1 - units * units,
}
