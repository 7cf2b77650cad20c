"""Programs of torch.export in files: write, check before torch loads them, and run.

Loading some members of an archive executes code, so archives are inspected first.
"""

import io
import json
import logging
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch._subclasses.fake_tensor import FakeTensorMode

import calibrant
from calibrant.errors import FileFormatError
from calibrant.export.backend import LARGEST_VALUE, MOST_ENTRIES, MOST_WORK, Exportable
from calibrant.export.torch.module import DTYPES, CalibrationModule
from calibrant.persistence.schema import quoted
from calibrant.space import Space

__all__ = ["METADATA", "check_archive", "metadata", "run", "write"]

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

    torch unpickles some members of an archive, evaluates expressions and looks up functions by name.

    Parameters
    ----------
    path : Path
        The file.
    load_plain : callable
        Reads a pickle of tensors and nothing else, and raises otherwise.
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
