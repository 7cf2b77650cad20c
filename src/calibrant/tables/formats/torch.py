"""Files of torch tensors: a tensor of scores, or a dictionary of tensors; pickled objects are never run."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileFormatError, MissingExtraError
from calibrant.tables.array_source import ArraySource
from calibrant.tables.formats import ZIP, Format
from calibrant.tables.formats.numpy import one_array_only
from calibrant.tables.source import Batch, Sink

__all__ = ["TorchSink", "torch_source"]


def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise MissingExtraError("torch", "torch") from error
    return torch


class TensorFile:
    """The tensor of a file, named after it, or the tensors of a dictionary."""

    def __init__(self, path: Path) -> None:
        torch = _torch()
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except (
            pickle.UnpicklingError,
            RuntimeError,
            EOFError,
            ValueError,
            KeyError,
            AttributeError,
        ) as error:
            raise FileFormatError(
                f"{path} is not a complete file of tensors alone; save a tensor, or a dictionary of tensors, with torch.save."
            ) from error
        self.is_dictionary = isinstance(content, dict)
        found = content if isinstance(content, dict) else {path.name.removesuffix(path.suffix): content}
        self.content = {
            str(name): tensor for name, tensor in found.items() if isinstance(tensor, torch.Tensor | list)
        }
        self._arrays = {name: _as_array(tensor) for name, tensor in self.content.items()}
        if not any(isinstance(tensor, torch.Tensor) for tensor in self.content.values()):
            raise FileFormatError(
                f"{path} has no tensors; save a tensor, or a dictionary of tensors, with torch.save."
            )
        self.names = tuple(self._arrays)
        self.shapes = {name: array.shape for name, array in self._arrays.items()}

    def array(self, name: str) -> NDArray[Any]:
        """Return one tensor as an array."""
        return self._arrays[name]

    def close(self) -> None:
        """Release the memory."""
        self._arrays.clear()


def _as_array(tensor: Any) -> NDArray[Any]:
    """Return a tensor, or a list such as that of class names, as an array."""
    torch = _torch()
    if isinstance(tensor, list):
        return np.array([str(one) for one in tensor])
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    array: NDArray[Any] = (dense.float() if dense.dtype == torch.bfloat16 else dense).numpy()
    return array


def torch_source(path: Path) -> ArraySource:
    """Open a file of tensors."""
    return ArraySource(path, TensorFile(path))


class TorchSink(Sink):
    """Writer of the tensors of a file with new scores."""

    def __init__(
        self, stream: IO[bytes], path: Path, source: ArraySource, columns: Sequence[str], appended: bool
    ) -> None:
        assert isinstance(source.members, TensorFile)
        assert source.score_name is not None
        if not source.members.is_dictionary:
            one_array_only(path, appended)
        self._stream, self._members, self._name = stream, source.members, columns[0]
        self._shape = source.shapes[source.score_name]
        self._parts: list[NDArray[np.floating]] = []

    def write(self, batch: Batch, scores: NDArray[np.floating]) -> None:  # noqa: ARG002
        """Collect rows."""
        self._parts.append(np.array(scores))

    def finish(self) -> None:
        """Write all tensors."""
        torch = _torch()
        if self._parts:
            tensor = torch.from_numpy(np.concatenate(self._parts).reshape(self._shape))
            is_dictionary = self._members.is_dictionary
            torch.save(
                {**self._members.content, self._name: tensor} if is_dictionary else tensor, self._stream
            )


TORCH = Format(
    "torch tensors",
    (".pt", ".pth"),
    torch_source,
    TorchSink,
    ZIP,
    member="data.pkl",
    about="a tensor (labels as for NPY), or a dictionary of tensors; needs the extra `torch`",
)
