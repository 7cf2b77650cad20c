"""CalibrationModule: a fitted map as a module of torch, with its fitted arrays as buffers."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant.errors import PredictionError
from calibrant.export.arrays import Arrays
from calibrant.export.backend import Exportable
from calibrant.export.formulas import applied
from calibrant.space import Space

__all__ = ["DTYPES", "CalibrationModule", "TensorArrays"]

Tensor = Any  # torch.Tensor, whose types are not looked at

KINDS: dict[Any, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}
DTYPES = {kind.name: dtype for dtype, kind in KINDS.items()}

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp,
    "log": torch.log,
    "log1p": torch.log1p,
    "expm1": torch.expm1,
    "sigmoid": torch.sigmoid,
    "absolute": torch.abs,
    "square-root": torch.sqrt,
    "tanh": torch.tanh,
    "reciprocal": torch.reciprocal,
}


class CalibrationModule(torch.nn.Module):
    """A fitted calibrator as a torch module, from scores (n, K) to calibrated probabilities (n, K).

    For two classes, scores (n, 1) or (n,) are those of the second class, as of a network with one output. With ``class_axis``,
    scores have any number of axes, and probabilities have the same ones.

    Fitted arrays are buffers. They move with the module and stay float64 when the module is cast; results have the float type
    of the input. float16 and bfloat16 are computed in float32; autocast is disabled inside. The derivative is that of the map,
    which is zero for step functions.

    Attributes
    ----------
    space : str
        Whether the module takes probabilities or logits.
    classes : tuple of str
        Labels of the columns.
    class_axis : int or None
        Axis of the classes; None for rows.
    """

    def __init__(self, exportable: Exportable, class_axis: int | None = None) -> None:
        super().__init__()
        self.class_axis = class_axis
        self.space = exportable.graph.space.value
        self.classes = exportable.classes
        self._graph = exportable.graph
        # Applying all formulas to one row registers the arrays that they need.
        row = torch.full((1, self._graph.n_columns), 1 / self._graph.n_columns, dtype=torch.float64)
        with torch.no_grad():
            self._applied(row, self._registered)

    def _registered(self, name: str, array: NDArray[Any]) -> torch.Tensor:
        if name not in self._buffers:
            own = np.array(array, dtype=np.float64 if array.dtype.kind == "f" else np.int64)
            self.register_buffer(name, torch.from_numpy(own))
        return self._found(name, array)

    def _found(self, name: str, array: NDArray[Any]) -> torch.Tensor:  # noqa: ARG002
        buffer = self._buffers[name]
        assert buffer is not None
        return buffer

    def _applied(
        self, scores: torch.Tensor, stored: Callable[[str, NDArray[Any]], torch.Tensor]
    ) -> torch.Tensor:
        result: torch.Tensor = applied(TensorArrays(KINDS[scores.dtype], stored), self._graph, scores)
        return result

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Return calibrated probabilities of scores (n, K), or with K at ``class_axis``."""
        if self.class_axis is None:
            return self._of_rows(scores)
        if not -scores.ndim <= self.class_axis < scores.ndim:
            raise PredictionError(
                f"scores must have an axis {self.class_axis} of the classes, but have shape {tuple(scores.shape)}; pass "
                "another class_axis to to_torch."
            )
        last = scores.movedim(self.class_axis, -1)
        rows = self._of_rows(last.reshape(-1, last.shape[-1]))
        return rows.reshape(*last.shape[:-1], rows.shape[1]).movedim(-1, self.class_axis)

    def _of_rows(self, scores: torch.Tensor) -> torch.Tensor:
        n_columns = self._graph.n_columns
        if n_columns == 2 and scores.ndim == 1:
            scores = scores[:, None]
        if scores.ndim != 2 or (scores.shape[1] != n_columns and (n_columns, scores.shape[1]) != (2, 1)):
            raise PredictionError(
                f"scores must have shape (n, {n_columns}), not {tuple(scores.shape)}; for more axes pass "
                "to_torch(class_axis=...)."
            )
        if not scores.is_floating_point():
            raise PredictionError(f"scores must be floats, not {scores.dtype}; call scores.float() first.")
        rows = scores if scores.dtype in KINDS else scores.float()
        if n_columns == 2 and rows.shape[1] == 1:
            first = 1 - rows if self.space == Space.PROBABILITIES else torch.zeros_like(rows)
            rows = torch.cat([first, rows], dim=1)
        with _without_autocast(scores.device.type):
            result = self._applied(rows, self._found)
        return result if result.dtype == scores.dtype else result.to(scores.dtype)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> "CalibrationModule":
        """Move buffers to the device of the module; their float type stays."""
        kept = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, before in kept.items():
            moved = self._buffers[name]
            if before is not None and moved is not None and moved.dtype != before.dtype:
                self._buffers[name] = before.to(moved.device)
        return self

    def extra_repr(self) -> str:
        """Return space, number of classes and number of operations."""
        axis = "" if self.class_axis is None else f"class_axis={self.class_axis}, "
        return f"space={self.space!r}, {axis}classes={len(self.classes)}, operations={len(self._graph.nodes)}"


def _without_autocast(device: str) -> AbstractContextManager[Any]:
    """Disable autocast: products in bfloat16 would lose three digits."""
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        context: AbstractContextManager[Any] = torch.autocast(device, enabled=False)
        return context
    return nullcontext()


class TensorArrays(Arrays):
    """Primitives as functions of torch.

    Parameters
    ----------
    kind : dtype
        Float type of the input.
    stored : callable
        ``stored(name, array)`` returns the buffer of a fitted array.
    """

    def __init__(self, kind: np.dtype[Any], stored: Callable[[str, NDArray[Any]], Tensor]) -> None:
        super().__init__(kind)
        self._stored = stored

    # Constants and types

    def constant(self, name: str, array: NDArray[Any], like: Tensor | None = None) -> Tensor:
        buffer = self._stored(self.path(name), array)
        return buffer if like is None or not buffer.is_floating_point() else buffer.to(like.dtype)

    def numbers(self, name: str, array: NDArray[Any], like: Tensor) -> list[Tensor]:
        return list(self.constant(name, np.asarray(array, dtype=np.float64), like).unbind())

    def kind_of(self, x: Tensor) -> np.dtype[Any]:
        return KINDS[x.dtype]

    def cast(self, x: Tensor, kind: np.dtype[Any]) -> Tensor:
        return x.to(DTYPES[kind.name])

    def width(self, x: Tensor) -> int:
        return int(x.shape[1])

    # Elementwise

    def function(self, name: str, x: Tensor) -> Tensor:
        return FUNCTIONS[name](x)

    def maximum(self, x: Tensor, y: Any) -> Tensor:
        return torch.maximum(x, y) if isinstance(y, torch.Tensor) else torch.clamp_min(x, y)

    def minimum(self, x: Tensor, y: Any) -> Tensor:
        return torch.minimum(x, y) if isinstance(y, torch.Tensor) else torch.clamp_max(x, y)

    def where(self, condition: Tensor, x: Any, y: Any) -> Tensor:
        return torch.where(condition, x, y)

    def replaced(self, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return torch.where(condition, x.detach() + (y - y.detach()), y)

    # Rows

    def row(self, name: str, x: Tensor) -> Tensor:
        if name == "sum":
            return x.sum(dim=1, keepdim=True)
        return x.amax(dim=1, keepdim=True) if name == "max" else x.amin(dim=1, keepdim=True)

    def argmax(self, x: Tensor) -> Tensor:
        return x.argmax(dim=1, keepdim=True)

    def softmax(self, x: Tensor) -> Tensor:
        return torch.softmax(x, dim=1)

    def log_softmax(self, x: Tensor) -> Tensor:
        return torch.log_softmax(x, dim=1)

    def matmul(self, x: Tensor, weights: Tensor) -> Tensor:
        return x @ weights

    def cumulative_sum(self, x: Tensor) -> Tensor:
        return x.cumsum(dim=1)

    def mean_of_middle(self, x: Tensor) -> Tensor:
        return x.mean(dim=1)

    # Columns and order

    def take(self, vector: Tensor, places: Tensor) -> Tensor:
        return vector[places]

    def take_along(self, x: Tensor, columns: Tensor) -> Tensor:
        return x.gather(1, columns)

    def put_along(self, columns: Tensor, values: Tensor) -> Tensor:
        return torch.scatter(values, 1, columns, values)

    def columns(self, x: Tensor, columns: NDArray[np.intp]) -> Tensor:
        chosen = columns.tolist()
        if chosen == list(range(chosen[0], chosen[0] + len(chosen))):
            return x.narrow(1, chosen[0], len(chosen))
        return x.index_select(1, self.constant("chosen", columns))

    def joined(self, values: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(values), dim=1)

    def order(self, x: Tensor, n_first: int, *, descending: bool) -> Tensor:
        return torch.sort(x.detach(), dim=1, descending=descending, stable=True).indices[:, :n_first]

    def search(
        self, x: Tensor, knots: NDArray[np.float64], n_knots: NDArray[np.intp], *, closed_left: bool
    ) -> Tensor:
        """Return segments; knots of all columns fill a matrix, with infinity at the end of short columns."""
        x = x.detach()
        if len(n_knots) == 1:
            own = knots if len(knots) else np.array([np.inf])  # files hold no empty arrays
            return torch.searchsorted(self.constant("knots", own, x), x.contiguous(), right=closed_left)
        ends = np.cumsum(n_knots)
        table = np.full((len(n_knots), max(int(n_knots.max()), 1)), np.inf)
        for column, (count, end) in enumerate(zip(n_knots.tolist(), ends.tolist(), strict=True)):
            table[column, :count] = knots[end - count : end]
        places = torch.searchsorted(self.constant("knots", table, x), x.mT.contiguous(), right=closed_left).mT
        return places + self.constant("first_segments", ends - n_knots + np.arange(len(n_knots)))

    def ladder(self, x: Tensor, rises: Tensor, n_columns: int) -> Tensor:  # noqa: ARG002
        """Return rows raised from left to right.

        Floats of one sign have the order of their bits, so the next float is the next integer. With r the number of rises so
        far, entry minus r is a running maximum over the first entries of all ties.
        """
        x = x.detach()
        integer = torch.int32 if x.dtype == torch.float32 else torch.int64
        sign = torch.iinfo(integer).min  # the bits of a negative zero
        bits = x.view(integer)
        places = torch.where(bits < 0, sign - bits, bits)
        steps = torch.nn.functional.pad(rises.to(integer).cumsum(dim=1, dtype=integer), (1, 0))
        is_first = torch.nn.functional.pad(rises, (1, 0), value=True)
        places = torch.where(is_first, places - steps, sign).cummax(dim=1).values + steps
        return torch.where(places < 0, sign - places, places).view(x.dtype)

    # Iteration

    def detached(self, x: Tensor) -> Tensor:
        return x.detach()

    def iterated(
        self,
        step: Callable[[tuple[Tensor, ...]], tuple[tuple[Tensor, ...], Tensor]],
        state: tuple[Tensor, ...],
        most: int,
    ) -> tuple[Tensor, ...]:
        for _ in range(most):
            state, _ = step(state)
        return state
