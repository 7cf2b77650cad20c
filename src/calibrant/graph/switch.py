"""Switch: several maps, of which the arg-max of a row selects one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray
from calibrant.graph.map_graph import MapGraph
from calibrant.graph.operation import GraphError, Kernel, Operation

__all__ = ["Switch"]


@dataclass(frozen=True, eq=False)
class Switch(Operation):
    """The map that belongs to the arg-max of the second value, applied to the first value, as float64.

    Attributes
    ----------
    branches : tuple of MapGraph
        Maps of the first value, all of one width.
    branch_of_column : ndarray of shape (columns of the second value,)
        Number of the map for every column.
    """

    branches: tuple[MapGraph, ...]
    branch_of_column: NDArray[np.intp]

    name: ClassVar[str] = "switch"
    widens: ClassVar[bool] = True
    rounds: ClassVar[bool] = False
    n_values: ClassVar[int | None] = 2

    def width(self, widths: Sequence[int]) -> int:
        outputs = {branch.n_outputs for branch in self.branches}
        inputs = {branch.n_columns for branch in self.branches}
        if inputs != {widths[0]} or len(outputs) != 1:
            raise GraphError("switch has branches of another width than its value, or of several")
        numbers = self.branch_of_column
        if numbers.shape != (widths[1],) or numbers.min() < 0 or numbers.max() >= len(self.branches):
            raise GraphError("switch has columns without a branch")
        return outputs.pop()

    @property
    def needs_all_rows(self) -> bool:  # type: ignore[override]
        """Whether a branch needs all rows at once."""
        return any(node.operation.needs_all_rows for branch in self.branches for node in branch.nodes)

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        programs = [branch.program(np.dtype(np.float64)) for branch in self.branches]
        numbers = self.branch_of_column

        def kernel(out: FloatArray | None, x: FloatArray, selector: FloatArray) -> Any:  # noqa: ARG001
            if len(programs) == 1:
                return programs[0].run(x)
            number_of_row = numbers[selector.argmax(axis=1)]
            result = np.empty((len(x), programs[0].n_outputs))
            for number in np.unique(number_of_row).tolist():
                rows = np.flatnonzero(number_of_row == number)
                result[rows] = programs[number].run(x[rows])
            return result

        return kernel
