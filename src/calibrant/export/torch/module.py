"""CalibrationModule: a fitted map as a module of torch, with its fitted arrays as buffers."""

import io
import json
import logging
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch._subclasses.fake_tensor import FakeTensorMode

import calibrant
from calibrant.errors import FileFormatError, PredictionError
from calibrant.export.backend import Exportable
from calibrant.export.formulas import applied
from calibrant.export.limits import LARGEST_VALUE, MOST_ENTRIES, MOST_WORK
from calibrant.export.torch.archive import METADATA, check_archive
from calibrant.export.torch.arrays import DTYPES, KINDS, TensorArrays
from calibrant.space import Space

__all__ = ["CalibrationModule", "metadata", "run", "write"]


class CalibrationModule(torch.nn.Module):
    """A fitted calibrator for torch: scores (n, K) in, calibrated probabilities (n, K) out.

    Fitted arrays are buffers. They move with the module and stay float64, whatever type the module is cast to; results
    have the float type of the input. float16 and bfloat16 are computed in float32; autocast is off inside. The derivative is that
    of the map: zero for step functions.

    Attributes
    ----------
    space : str
        Whether the module takes probabilities or logits.
    classes : tuple of str
        Labels of the columns.
    """

    def __init__(self, exportable: Exportable) -> None:
        super().__init__()
        self.space = exportable.graph.space.value
        self.classes = exportable.classes
        self._graph = exportable.graph
        # One row through all formulas finds the arrays that they need.
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
        """Return calibrated probabilities of scores (n, K)."""
        if scores.ndim != 2 or scores.shape[1] != self._graph.n_columns:
            raise PredictionError(
                f"scores must have shape (n, {self._graph.n_columns}), not {tuple(scores.shape)}; move the classes to the "
                "last axis and flatten all others."
            )
        if not scores.is_floating_point():
            raise PredictionError(f"scores must be floats, not {scores.dtype}; call scores.float() first.")
        with _without_autocast(scores.device.type):
            if scores.dtype in KINDS:
                return self._applied(scores, self._found)
            return self._applied(scores.float(), self._found).to(scores.dtype)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> "CalibrationModule":
        """Move buffers to where the module goes; their float type stays."""
        kept = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, before in kept.items():
            moved = self._buffers[name]
            if before is not None and moved is not None and moved.dtype != before.dtype:
                self._buffers[name] = before.to(moved.device)
        return self

    def extra_repr(self) -> str:
        """Return what goes in and the classes."""
        return f"space={self.space!r}, classes={len(self.classes)}, operations={len(self._graph.nodes)}"


def write(exportable: Exportable, path: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG001
    """Write a program of torch.export for any number of rows."""
    module = CalibrationModule(exportable).eval()
    # Two rows, since one would be taken for a fixed number.
    example = torch.full((2, exportable.graph.n_columns), 0.5, dtype=DTYPES[exportable.dtype.name])
    told = {
        "version": calibrant.__version__,
        "space": exportable.graph.space.value,
        "classes": list(exportable.classes),
        "dtype": exportable.dtype.name,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(
            module, (example,), dynamic_shapes={"scores": {0: torch.export.Dim.DYNAMIC}}, strict=False
        )
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)  # paths of this machine
        torch.export.save(program, path, extra_files={METADATA: json.dumps(told)})


def _without_autocast(device: str) -> AbstractContextManager[Any]:
    """Switch autocast off where it is on: products of bfloat16 would lose three digits."""
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        context: AbstractContextManager[Any] = torch.autocast(device, enabled=False)
        return context
    return nullcontext()


class _Sizes(torch.fx.Interpreter):
    """Runs a program on tensors without numbers, and refuses large values before they are computed."""

    def __init__(self, module: Any, path: Path) -> None:
        super().__init__(module)
        self.extra_traceback = False  # lines about torch in errors
        self._path = path
        self._total = 0
        self._work = 0

    def run_node(self, n: Any) -> Any:
        """Return the result of a node."""
        result = super().run_node(n)
        made = [each for each in torch.utils._pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]
        sizes = [each.numel() for each in made]
        inner = n.args[0].meta.get("columns", 1) if "matmul" in str(n.target) else 1
        n.meta["columns"] = made[0].shape[-1] if made and made[0].ndim else 1
        self._total += sum(sizes)
        self._work += inner * sum(sizes)
        if max(sizes, default=0) > LARGEST_VALUE or self._total > MOST_ENTRIES or self._work > MOST_WORK:
            raise FileFormatError(
                f"{self._path} has values of {self._total} entries, which no export has; export the calibrator again."
            )
        return result


class _SilentLog:
    """Logs of torch in the meantime are dropped: what is wrong with a file is said in one sentence."""

    def __enter__(self) -> None:
        self._loggers = [
            logging.getLogger(name)
            for name in logging.root.manager.loggerDict
            if name.partition(".")[0] == "torch"
        ]
        for logger in self._loggers:
            logger.addFilter(self.drop)

    def __exit__(self, *error: object) -> None:
        for logger in self._loggers:
            logger.removeFilter(self.drop)

    @staticmethod
    def drop(record: logging.LogRecord) -> bool:  # noqa: ARG004
        """Return that no record passes."""
        return False


def _loaded(path: Path) -> tuple[Any, dict[str, Any]]:
    check_archive(path, lambda data: torch.load(io.BytesIO(data), weights_only=True))
    extra = {METADATA: ""}
    with warnings.catch_warnings(), _SilentLog():
        warnings.simplefilter("ignore")
        program = torch.export.load(path, extra_files=extra)
    try:
        told = json.loads(extra[METADATA])
        makes_sense = (
            told["space"] in list(Space) and isinstance(told["classes"], list) and told["dtype"] in DTYPES
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        makes_sense = False
    if not makes_sense:
        raise FileFormatError(f"{path} is damaged: its metadata make no sense; export the calibrator again.")
    return program, told


def metadata(path: Path) -> dict[str, Any]:
    """Return space and classes of an exported program."""
    _, told = _loaded(path)
    return {"space": told["space"], "classes": [str(label) for label in told["classes"]]}


def run(path: Path, scores: NDArray[np.floating]) -> NDArray[np.floating]:
    """Apply an exported program."""
    program, told = _loaded(path)
    given = torch.from_numpy(np.ascontiguousarray(scores)).to(DTYPES[told["dtype"]])
    module = program.module()
    with torch.no_grad():
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            _Sizes(module, path).run(mode.from_tensor(given))
        result: NDArray[np.floating] = module(given).numpy()
    return result
