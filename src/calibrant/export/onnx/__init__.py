"""ONNX exports: fitted maps as models of the default operator domain, written, read with checks and run."""

import json
from collections.abc import Mapping
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
from numpy.typing import NDArray

import calibrant
from calibrant.errors import FileFormatError, MissingExtraError
from calibrant.export.backend import Backend, Exportable
from calibrant.export.formulas import applied
from calibrant.export.onnx.arrays import Nodes, SymbolicArrays
from calibrant.export.onnx.checking import Proto, check_model
from calibrant.space import Space

__all__ = [
    "BACKEND",
    "IR_VERSION",
    "OPSET",
    "ROWS",
    "computed",
    "imported",
    "metadata",
    "run",
    "set_metadata",
    "tensor_of",
    "to_nodes",
    "write",
]

OPSET = 18
"""Version of the default operator domain; no other domain is used. ONNX Runtime has it since 1.14 (2023)."""

IR_VERSION = 8
"""Version of the file format of the opset."""

INPUT, OUTPUT = "scores", "probabilities"
ATTACHED = "calibrant.attached"
"""Metadata of classifiers with a calibrator behind them."""

ROWS = "rows"
"""Name of the number of rows."""

MOST_BYTES = 2**31 - 1
"""Largest file that the format allows."""

SECONDS = 60.0
"""Time limit for the test rows."""


def imported() -> Any:
    """Return the library onnx."""
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx") from error
    return onnx


def write(exportable: Exportable, path: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG001
    """Write an ONNX model with the input ``scores`` and the output ``probabilities``."""
    onnx = imported()
    kind, graph = exportable.dtype, exportable.graph
    arrays = SymbolicArrays(kind)
    result = applied(arrays, graph, arrays.symbol(INPUT, kind))
    arrays.main.nodes.append(("Identity", [result.name], [OUTPUT], {}))
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            to_nodes(arrays.main, onnx),
            "calibrator",
            [tensor_of(onnx, INPUT, kind, [ROWS, graph.n_columns])],
            [tensor_of(onnx, OUTPUT, kind, [ROWS, graph.n_outputs])],
            [onnx.numpy_helper.from_array(array, name) for name, array in arrays.initializers.items()],
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="calibrant",
        producer_version=calibrant.__version__,
    )
    set_metadata(model, exportable)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString(deterministic=True))


def set_metadata(model: Proto, exportable: Exportable, *, attached: bool = False) -> None:
    """Add version, space and classes to the metadata of a model, and whether the calibrator is behind a classifier."""
    told = {
        "calibrant.version": calibrant.__version__,
        "calibrant.space": exportable.graph.space.value,
        "calibrant.classes": json.dumps(exportable.classes),
    }
    if attached:
        told[ATTACHED] = "true"
    others = {entry.key: entry.value for entry in model.metadata_props}
    del model.metadata_props[:]
    for key, value in (others | told).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value


def to_nodes(nodes: Nodes, onnx: Any) -> list[Proto]:
    """Return plain nodes as messages."""

    def attribute(value: Any) -> Any:
        if isinstance(value, np.dtype):
            return onnx.helper.np_dtype_to_tensor_dtype(value)
        if isinstance(value, Nodes):
            sides = ((value.inputs, 2 * value.is_loop), (value.outputs, 1 * value.is_loop))
            ends = [
                [
                    tensor_of(onnx, each.name, each.kind, [] if place < n_single else None)
                    for place, each in enumerate(side)
                ]
                for side, n_single in sides
            ]
            return onnx.helper.make_graph(to_nodes(value, onnx), "body", ends[0], ends[1])
        return value

    return [
        onnx.helper.make_node(
            operator, inputs, outputs, **{name: attribute(value) for name, value in attributes.items()}
        )
        for operator, inputs, outputs, attributes in nodes.nodes
    ]


def tensor_of(onnx: Any, name: str, kind: np.dtype[Any], shape: list[Any] | None) -> Proto:
    """Return the description of an input or output."""
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(kind), shape)


def metadata(path: Path) -> dict[str, Any]:
    """Return space, classes and number of score columns of an exported model."""
    model = _read(path)
    told = {entry.key: entry.value for entry in model.metadata_props}
    if ATTACHED in told:
        raise FileFormatError(
            f"{path} is a classifier with a calibrator behind it, which attach compared; verify takes a file of the calibrator "
            "alone."
        )
    try:
        classes = json.loads(told["calibrant.classes"])
        space = told["calibrant.space"]
    except (KeyError, ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{path} is an ONNX model that calibrant did not write; pass a file that export wrote."
        ) from error
    if space not in list(Space) or type(classes) is not list:
        raise FileFormatError(f"{path} is damaged: its metadata are invalid; export the calibrator again.")
    shapes = [given.type.tensor_type.shape.dim for given in model.graph.input]
    return {
        "space": space,
        "classes": [str(label) for label in classes],
        "n_columns": shapes[0][1].dim_value if shapes and len(shapes[0]) == 2 else None,
    }


def run(path: Path, scores: NDArray[np.floating]) -> NDArray[np.floating]:
    """Apply an exported model in ONNX Runtime, after :func:`check_model`."""
    _runtime()
    model = _read(path)
    check_model(path, model, imported(), scores.shape)
    return computed(model, OUTPUT, scores)


def computed(model: Proto, output: str, scores: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return an output of a model with one input from ONNX Runtime, within a time limit."""
    onnxruntime = _runtime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # Otherwise ONNX Runtime retries a model that it cannot load, and prints a message.
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0
    )
    (given,) = session.get_inputs()
    kind = {"tensor(float)": np.float32, "tensor(double)": np.float64}[given.type]
    limited = onnxruntime.RunOptions()
    limited.log_severity_level = 4
    watch = Timer(SECONDS, setattr, (limited, "terminate", True))
    watch.start()
    try:
        (result,) = session.run([output], {given.name: scores.astype(kind)}, limited)
    finally:
        watch.cancel()
    return np.asarray(result)


def _runtime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("onnxruntime", "onnx") from error
    return onnxruntime


def _read(path: Path) -> Proto:
    onnx = imported()
    if path.stat().st_size > MOST_BYTES:
        raise FileFormatError(f"{path} has more than 2 GiB, which no export has.")
    content = path.read_bytes()
    if not content:
        raise FileFormatError(f"{path} is empty; export the calibrator again.")
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # of protobuf, by whatever name
        raise FileFormatError(
            f"{path} is damaged or is no ONNX model; export the calibrator again."
        ) from error
    return model


BACKEND = Backend("ONNX", (".onnx",), "onnx", write, run, metadata, dtype="float32")
