"""Modules and programs of torch: a fitted map with its arrays as buffers, and its file, checked before loading.

Loading some members of an archive executes code, so archives are inspected first.
"""

import io
import json
import logging
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch._subclasses.fake_tensor import FakeTensorMode

import calibrant
from calibrant.errors import FileFormatError, PredictionError
from calibrant.export.arrays import Arrays
from calibrant.export.backend import LARGEST_VALUE, MOST_ENTRIES, MOST_WORK, Exportable
from calibrant.export.formulas import applied
from calibrant.persistence.schema import quoted
from calibrant.space import Space

__all__ = [
    "DTYPES",
    "METADATA",
    "CalibrationModule",
    "TensorArrays",
    "check_archive",
    "metadata",
    "run",
    "write",
]

Tensor = Any  # torch.Tensor, whose types are not looked at

KINDS: dict[Any, np.dtype[Any]] = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}
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
    """Primitives as functions of torch; ``stored(name, array)`` returns the buffer of a fitted array."""

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


METADATA = "calibrant.json"

MODEL, SAMPLES = "models/model.json", "data/sample_inputs/model.pt"
CONFIGS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
MEMBERS = re.compile(
    r"models/model\.json|data/sample_inputs/model\.pt|data/weights/(weight_\d+|model_weights_config\.json)|"
    r"data/constants/(tensor_\d+|model_constants_config\.json)|extra/calibrant\.json|archive_format|archive_version|byteorder|"
    r"\.data/(version|serialization_id)|\.format_version|\.storage_alignment|version"
)

# The operators of exports (a test exports every method): none reads or writes a file, or makes a tensor of a given size.
OPERATORS = frozenset({
    "__and__.Tensor", "_assert_tensor_metadata.default", "abs.default", "add.Tensor", "amax.default",
    "amin.default", "argmax.default", "bitwise_not.default", "cat.default", "clamp_max.default",
    "clamp_min.default", "contiguous.default", "cummax.default", "cumsum.default", "detach.default",
    "div.Tensor", "eq.Scalar", "eq.Tensor", "exp.default", "expm1.default", "gather.default",
    "ge.Scalar", "ge.Tensor", "gt.Scalar", "gt.Tensor", "index.Tensor",
    "index_select.default", "le.Scalar", "le.Tensor", "log.default", "log1p.default", "log_softmax.int",
    "lt.Scalar", "lt.Tensor", "mT.default", "matmul.default", "maximum.default", "mean.dim",
    "minimum.default", "mul.Tensor", "narrow.default", "neg.default", "pad.default",
    "reciprocal.default", "rsub.Scalar", "scatter.src", "searchsorted.Tensor", "sigmoid.default",
    "slice.Tensor", "softmax.int", "sort.stable", "sqrt.default", "sub.Tensor", "sum.dim_IntList",
    "tanh.default", "to.dtype", "unbind.int", "view.dtype", "where.ScalarOther", "where.ScalarSelf",
    "where.self",
})  # fmt: skip

# Numbers of rows as expressions, which sympy evaluates.
EXPRESSIONS = re.compile(r"Symbol\('[su]\d{1,9}', positive=True, integer=True\)|[su]?\d{1,9}")

# Names become part of Python source that torch generates.
NAMES = re.compile(r"[A-Za-z_][A-Za-z_0-9]{0,200}|")

# Texts that are no names: structure of arguments, and remarks.
SPECS = {
    "in_spec": re.compile(r'[][{}, :a-z_0-9"]*("type": "builtins\.(tuple|dict)"[][{}, :a-z_0-9"]*)*'),
    "out_spec": re.compile(r'[][{}, :a-z_0-9"]*'),
    "as_float": re.compile(r"-?Infinity|NaN"),
    "torch_version": re.compile(r"[0-9a-z.+]{1,40}"),
}
REMARKS = "metadata"

# Other code: conditions on sizes, objects of other libraries, operators and classes by name.
NOT_NEEDED = {"guards_code", "as_custom_obj", "as_operator", "as_graph", "treespec_namedtuple_fields"}

MOST_BYTES = 2**28
"""Length of the description of a program, and of each of the small members."""


def write(exportable: Exportable, path: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG001
    """Write a program of torch.export for any number of rows."""
    module = CalibrationModule(exportable).eval()
    # Two rows, because torch would treat a single row as a fixed number.
    example = torch.full((2, exportable.graph.n_columns), 0.5, dtype=DTYPES[exportable.dtype.name])
    told = {
        "version": calibrant.__version__,
        "space": exportable.graph.space.value,
        "classes": list(exportable.classes),
        "dtype": exportable.dtype.name,
        "n_columns": exportable.graph.n_columns,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(
            module, (example,), dynamic_shapes={"scores": {0: torch.export.Dim.DYNAMIC}}, strict=False
        )
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)  # paths of this machine
        torch.export.save(program, path, extra_files={METADATA: json.dumps(told)})


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
        raise FileFormatError(f"{path} is damaged: its metadata are invalid; export the calibrator again.")
    return program, told


def metadata(path: Path) -> dict[str, Any]:
    """Return space, classes and number of score columns of an exported program."""
    _, told = _loaded(path)
    return {
        "space": told["space"],
        "classes": [str(label) for label in told["classes"]],
        "n_columns": told.get("n_columns"),
    }


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


class _Sizes(torch.fx.Interpreter):
    """Run a program on tensors without data, and refuse large values before they are computed."""

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
    """Context in which logs of torch are dropped: the error of a file is one sentence."""

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


def check_archive(path: Path, load_plain: Callable[[bytes], Any]) -> None:
    """Raise an error for an archive with anything but tensors and operators of exports.

    torch unpickles some members of an archive, evaluates expressions and looks up functions by name. ``load_plain`` reads a
    pickle of tensors and nothing else, and raises otherwise.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_stored(path, archive, path.stat().st_size)
            members = {name.partition("/")[2]: name for name in archive.namelist()}
            _check_members(path, archive, members)
            for name in CONFIGS:
                _check_config(path, json.loads(archive.read(members[name])))
            _check_program(path, json.loads(archive.read(members[MODEL])))
            samples = archive.read(members[SAMPLES])
        with zipfile.ZipFile(io.BytesIO(samples)) as archive:
            _check_stored(path, archive, len(samples))
        load_plain(samples)
    except FileFormatError:
        raise
    except Exception as error:
        raise FileFormatError(
            f"{path} is damaged or is no program of torch ({type(error).__name__}: {quoted(str(error))}); export the "
            "calibrator again."
        ) from error


def _check_members(path: Path, archive: zipfile.ZipFile, members: dict[str, str]) -> None:
    strange = [name for name in members if not MEMBERS.fullmatch(name)]
    if strange or len(members) < len(archive.namelist()):
        raise _refused(path, f"the member {quoted(strange[0] if strange else 'twice')}")
    if f"extra/{METADATA}" not in members:
        raise FileFormatError(
            f"{path} is a program of torch that calibrant did not write; pass a file that export wrote."
        )
    for name in (MODEL, SAMPLES, *CONFIGS):
        if archive.getinfo(members[name]).file_size > MOST_BYTES:
            raise _refused(path, f"a member {name} of more than {MOST_BYTES} bytes")


def _check_config(path: Path, content: dict[str, Any]) -> None:
    for name, entry in content["config"].items():
        if not NAMES.fullmatch(name):
            raise _refused(path, f"the name {quoted(name)}")
        if entry.get("use_pickle") is not False or not re.fullmatch(
            r"(weight|tensor)_\d+", entry["path_name"]
        ):
            raise _refused(path, "pickled tensors")


def _check_program(path: Path, content: Any) -> None:
    """Raise an error for other operators, and for strings that could be code."""
    pending = [("", content)]
    while pending:
        key, part = pending.pop()
        if isinstance(part, list):
            pending.extend((key, each) for each in part)
        elif isinstance(part, dict):
            for name, value in part.items():
                if not NAMES.fullmatch(name):
                    raise _refused(path, f"the name {quoted(name)}")
                if name in NOT_NEEDED and value:
                    raise _refused(path, f"a value of {name}")
                if name != REMARKS:
                    pending.append((name, value))
        elif isinstance(part, str):
            _check_text(path, key, part)


def _check_text(path: Path, key: str, text: str) -> None:
    if key == "target":
        library, _, operator = text.partition("torch.ops.aten.")
        if library or operator not in OPERATORS:
            raise _refused(path, f"the operator {quoted(text)}")
    elif key == "expr_str":
        if not EXPRESSIONS.fullmatch(text):
            raise _refused(path, f"the expression {quoted(text)}")
    elif not SPECS.get(key, NAMES).fullmatch(text):
        raise _refused(path, f"the {key.replace('_', ' ')} {quoted(text)}")


def _check_stored(path: Path, archive: zipfile.ZipFile, size: int) -> None:
    """Raise an error for compressed members, which could have any length, and for data before the archive."""
    members = archive.infolist()
    if min((member.header_offset for member in members), default=1) != 0:
        raise FileFormatError(f"{path} is truncated or damaged; export the calibrator again.")
    is_stored = all(
        member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
        for member in members
    )
    if not is_stored or sum(member.file_size for member in members) > size:
        raise _refused(path, "compressed members")


def _refused(path: Path, what: str) -> FileFormatError:
    return FileFormatError(f"{path} has {what}, which no export has; export the calibrator again.")
