"""Origin: the container, library, type and device of predictions, in which results are returned."""

import sys
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray
from calibrant.errors import MissingExtraError, ParameterError, PredictionError

__all__ = ["Origin", "frame_of", "from_frame", "in_container", "on_host"]


# Types that are converted to float32, with the tolerance on sums of rows of probabilities.
SHORT_FLOATS = {"float16": 2**-10, "bfloat16": 2**-7}


@dataclass(frozen=True, eq=False)
class Origin:
    """Container of predictions other than a NumPy matrix: a tensor, an array with more axes, or a data frame.

    A NumPy matrix of float32 or float64 has no origin.
    """

    # Module of the arrays, such as "torch" or "jax.numpy"; None for NumPy and data frames
    library: str | None = None
    dtype: Any = None  # Type and device of the array; None for no conversion
    device: Any = None
    shape: tuple[int, ...] | None = None  # Lengths of all axes without the class axis; None for rows (n, K)
    class_axis: int = -1  # Position of the class axis
    columns: list[Any] | None = None  # Names of the columns of a data frame
    index: Any = None  # Index of a pandas frame
    backend: str | None = None  # Library of a data frame

    @classmethod
    def of(cls, X: Any) -> "Origin | None":
        """Return the origin of the predictions that a user passed; None for NumPy arrays and sequences.

        >>> Origin.of([[0.5, 0.5]]) is Origin.of(np.eye(2)) is None
        True
        """
        if isinstance(X, np.ndarray):
            # NumPy computes the name of a type, which takes longer than all else here.
            is_short = X.dtype.itemsize == 2 and X.dtype.name in SHORT_FLOATS
            return cls(dtype=X.dtype) if is_short else None
        if _is_torch(X):
            return cls("torch", X.dtype if X.dtype.is_floating_point else None, X.device)
        if _is_foreign(X):
            namespace = X.__array_namespace__()
            is_float = str(X.dtype).rpartition(".")[2].startswith(("float", "bfloat"))
            return cls(namespace.__name__, X.dtype if is_float else None, X.device)
        if hasattr(X, "column_names") and hasattr(X, "to_pydict"):
            return cls(columns=list(X.column_names), backend="pyarrow")
        if hasattr(X, "columns") and hasattr(X, "to_numpy"):
            backend = type(X).__module__.partition(".")[0]
            return cls(columns=list(X.columns), index=getattr(X, "index", None), backend=backend)
        return None

    @property
    def row_sum_tolerance(self) -> float:
        """Tolerance on sums of rows of probabilities for the rounding of the type."""
        return SHORT_FLOATS.get(str(self.dtype).rpartition(".")[2], 0.0)

    def of_some_rows(self) -> "Origin":
        """Return the origin of a subset of the rows, without shape and index."""
        return replace(self, shape=None, class_axis=-1, index=None)

    def array(self, rows: FloatArray) -> Any:
        """Return probabilities (n, K) in the shape, library, type and device of the predictions."""
        if self.shape is not None:
            rows = np.moveaxis(rows.reshape(*self.shape, rows.shape[1]), -1, self.class_axis)
        return self._converted(rows, self.dtype)

    def labels(self, labels: NDArray[Any]) -> Any:
        """Return labels (n,) in the shape of the predictions, and in their library if they are numbers."""
        if self.shape is not None:
            labels = labels.reshape(self.shape)
        return self._converted(labels, None) if labels.dtype.kind in "iu" else labels

    def _converted(self, array: NDArray[Any], dtype: Any) -> Any:
        if self.library is None:
            return array if dtype is None else array.astype(dtype)
        library = import_module(self.library)
        if not array.flags.writeable:  # such as read-only scores
            array = array.copy()
        if self.library == "torch":
            return library.from_numpy(np.ascontiguousarray(array)).to(device=self.device, dtype=dtype)
        if self.library == "cupy":
            with self.device:
                return library.asarray(array, dtype=dtype)
        return library.asarray(array, dtype=dtype, device=self.device)


def from_frame(X: Any) -> NDArray[Any]:
    """Return the entries of a data frame, or of a table of pyarrow, as an array."""
    if hasattr(X, "to_numpy"):
        array: NDArray[Any] = X.to_numpy()
        return array
    columns = [np.asarray(column) for column in X.columns]
    return np.stack(columns, axis=1) if columns else np.empty((X.num_rows, 0))


def on_host(X: Any) -> Any:
    """Convert a tensor of another library to a NumPy array without gradients; return anything else unchanged.

    float16 and bfloat16 become float32. A list of tensors becomes a list of arrays.
    """
    if isinstance(X, np.ndarray):
        pass
    elif _is_torch(X):
        X = _from_torch(X)
    elif isinstance(X, list | tuple) and _has_torch(X):
        return [on_host(each) for each in X]
    elif _is_foreign(X):
        X = X.get() if hasattr(X, "get") else _from_protocol(X)
    else:
        return X
    # NumPy does not know bfloat16 of other packages as a float type.
    return X.astype(np.float32) if X.dtype.kind == "V" and X.dtype.name == "bfloat16" else X


def _from_torch(X: Any) -> NDArray[Any]:
    X = X.detach()
    short = X.dtype.is_floating_point and X.dtype.itemsize < 4
    try:
        array: NDArray[Any] = (X.float() if short else X).cpu().numpy()
    except (NotImplementedError, RuntimeError, TypeError) as error:
        what = (
            "on the device 'meta', which holds no data"
            if X.is_meta
            else f"of layout {X.layout} and type {X.dtype}"
        )
        raise PredictionError(
            f"this tensor is {what}, and cannot be converted to an array; pass a dense tensor, such as X.to_dense()."
        ) from error
    return array


def _has_torch(X: Any) -> bool:
    """Return whether the first entry of a list, or of nested lists, is a tensor of torch."""
    while isinstance(X, list | tuple) and len(X) > 0:
        X = X[0]
    return _is_torch(X)


def _from_protocol(X: Any) -> NDArray[Any]:
    try:
        return np.asarray(X)
    except (RuntimeError, TypeError, ValueError):  # on another device
        return np.asarray(np.from_dlpack(X))


def _is_torch(X: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(X, getattr(torch, "Tensor", ()))


def _is_foreign(X: Any) -> bool:
    """Return whether this is an array of the array API standard other than NumPy's."""
    return hasattr(X, "__array_namespace__") and not isinstance(X, np.ndarray | np.generic)


def frame_of(rows: FloatArray, columns: list[Any], backend: str, index: Any = None) -> Any:
    """Return rows as a data frame of a library; ``index`` is for pandas."""
    try:
        import narwhals as nw
    except ModuleNotFoundError as error:
        raise MissingExtraError("narwhals", "frames") from error
    try:
        by_column = {str(name): rows[:, k] for k, name in enumerate(columns)}
        frame = nw.from_dict(by_column, backend=cast(Any, backend)).to_native()
    except ModuleNotFoundError as error:
        raise MissingExtraError(backend, "frames") from error
    if hasattr(frame, "index"):
        frame.columns = columns
        if index is not None:
            frame.index = index
    return frame


def in_container(rows: FloatArray, origin: Origin | None, container: str, labels: NDArray[Any]) -> Any:
    """Return probabilities (n, K) in the container that :meth:`calibrant.Calibrator.set_output` chose.

    "default" is the array or tensor type of the predictions. A data frame has the column names of the predictions, or the
    ``labels``.
    """
    backend = container if container in ("pandas", "polars") else None
    if container == "same" and origin is not None:
        backend = origin.backend
    if backend is None:
        return rows if origin is None else origin.array(rows)
    if origin is not None and origin.shape is not None:
        raise ParameterError(
            f"probabilities of shape {np.shape(origin.array(rows))} cannot be a data frame; pass rows, or "
            "set_output(predict_proba='default')."
        )
    names = None if origin is None else origin.columns
    columns = labels.tolist() if names is None or len(names) != rows.shape[1] else names
    return frame_of(rows, columns, backend, None if origin is None else origin.index)
