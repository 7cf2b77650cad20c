"""attach: append a fitted calibrator to the ONNX model of a classifier."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.calibrator import Calibrator
from calibrant.errors import ExportError, FileFormatError, MissingExtraError, ParameterError
from calibrant.export.backend import Exportable
from calibrant.export.exporting import exportable
from calibrant.export.formulas import applied
from calibrant.export.onnx.arrays import SymbolicArrays
from calibrant.export.onnx.checking import Proto, all_graphs
from calibrant.export.onnx.model import (
    IR_VERSION,
    OPSET,
    ROWS,
    computed,
    imported,
    set_metadata,
    tensor_of,
    to_nodes,
)
from calibrant.export.parity import compared, parity_rows

__all__ = ["attach"]


def attach(
    model: Any,
    calibrator: Calibrator,
    *,
    output: str | None = None,
    space: str | None = None,
    name: str = "calibrated",
) -> Any:
    """Append a fitted calibrator to the ONNX model of a classifier.

    Parameters
    ----------
    model : path-like or onnx.ModelProto
        The classifier; it is not modified.
    calibrator : Calibrator
        Fitted on scores of the same kind as the output.
    output : str, optional
        Output of the model with the scores; needed if there are several outputs.
    space : {"probabilities", "logits"}, optional
        Space of the output; by default that of the fit.
    name : str, default="calibrated"
        Name of the new output, which replaces the old one.

    Returns
    -------
    onnx.ModelProto
        A model from the inputs of the classifier to calibrated probabilities, in the float type of the scores. Models with an
        operator set below 18 are converted to that.

    Raises
    ------
    ParameterError
        If there is no such output, or the new name exists already.
    ExportError
        If the output has another type, another number of dimensions or another number of classes, or if ONNX Runtime is
        installed and the new nodes give different probabilities.
    NoGraphError
        If the fitted map is not a list of row operations.
    """
    onnx = imported()
    combined = _copied(model, onnx)
    place = _place(combined, output)
    scores = combined.graph.output[place]
    kind = _kind(scores, onnx, len(calibrator.classes_))
    content = exportable(calibrator, dtype=kind, space=space)
    combined = _upgraded(combined, onnx)
    taken = _names(combined)
    if name in taken:
        raise ParameterError(f"the model has a value called {name!r} already; pass another name.")
    prefix = "calibrator_"
    while any(each.startswith(prefix) for each in taken | {name}):
        prefix = f"_{prefix}"
    arrays = SymbolicArrays(kind, prefix)
    result = applied(arrays, content.graph, arrays.symbol(scores.name, kind))
    arrays.main.nodes.append(("Identity", [result.name], [name], {}))
    nodes = to_nodes(arrays.main, onnx)
    initializers = [onnx.numpy_helper.from_array(array, key) for key, array in arrays.initializers.items()]
    part = onnx.helper.make_graph(
        nodes,
        "calibrator",
        [tensor_of(onnx, scores.name, kind, [ROWS, content.graph.n_columns])],
        [tensor_of(onnx, name, kind, [ROWS, content.graph.n_outputs])],
        initializers,
    )
    _check_part(part, combined, name, content, onnx)
    combined.graph.node.extend(nodes)
    combined.graph.initializer.extend(initializers)
    replacement = combined.graph.output[place]
    replacement.name = name
    replacement.type.tensor_type.shape.dim[1].dim_value = content.graph.n_outputs
    set_metadata(combined, content)
    onnx.checker.check_model(combined, full_check=True)
    return combined


def _check_part(part: Proto, combined: Proto, name: str, content: Exportable, onnx: Any) -> None:
    """Compare the new nodes with the graph if ONNX Runtime is installed."""
    model = onnx.helper.make_model(part, opset_imports=combined.opset_import, ir_version=combined.ir_version)
    rows = parity_rows(content.graph).astype(content.dtype)
    try:
        found = computed(model, name, rows)
    except MissingExtraError:
        return
    parity = compared("ONNX", content.graph, rows, found)
    if not parity.holds:
        raise ExportError(
            f"the calibrator was not attached, because the probabilities of its nodes would differ: {parity}; export the "
            "classifier in float64, or attach another calibrator."
        )


def _copied(model: Any, onnx: Any) -> Proto:
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return copy
    path = Path(os.fsdecode(model))
    with open(path, "rb"):
        pass
    try:
        return onnx.load(path)
    except Exception as error:  # of protobuf, by whatever name
        raise FileFormatError(
            f"{path} is damaged or is no ONNX model; export the classifier again."
        ) from error


def _place(model: Proto, output: str | None) -> int:
    names = [each.name for each in model.graph.output]
    if output is None and len(names) == 1:
        return 0
    if output not in names:
        listed = ", ".join(map(repr, names))
        wrong = "the model has several outputs" if output is None else f"the model has no output {output!r}"
        raise ParameterError(f"{wrong}; pass output= as one of {listed}.")
    return names.index(output)


def _kind(scores: Proto, onnx: Any, n_classes: int) -> np.dtype[Any]:
    """Return the float type of an output, whose shape must be (rows, classes)."""
    kinds: dict[int, np.dtype[Any]] = {
        onnx.TensorProto.FLOAT: np.dtype(np.float32),
        onnx.TensorProto.DOUBLE: np.dtype(np.float64),
    }
    tensor = scores.type.tensor_type
    kind = kinds.get(tensor.elem_type) if scores.type.HasField("tensor_type") else None
    if kind is None:
        raise ExportError(
            f"the output {scores.name!r} is no tensor of float32 or float64; choose another output, or convert the classifier so "
            "that it returns an array of scores."
        )
    shape = [each.dim_value or None for each in tensor.shape.dim]
    if len(shape) != 2 or shape[1] not in (None, n_classes):
        shown = ", ".join("any" if each is None else str(each) for each in shape)
        raise ExportError(
            f"the output {scores.name!r} has shape ({shown}), but the calibrator takes (rows, {n_classes}); choose another "
            "output, or the calibrator that was fitted for this classifier."
        )
    return kind


def _upgraded(model: Proto, onnx: Any) -> Proto:
    """Return the model with the operator set of calibrators or a later one."""
    versions = {each.domain: each.version for each in model.opset_import}
    if versions.get("", versions.get("ai.onnx", 0)) < OPSET:
        try:
            model = onnx.version_converter.convert_version(model, OPSET)
        except Exception as error:  # RuntimeError and others of the converter
            raise ExportError(
                f"the model has operator set {versions.get('', 0)} and cannot be converted to {OPSET}; export the classifier "
                f"again with opset {OPSET}."
            ) from error
    model.ir_version = max(model.ir_version, IR_VERSION)
    return model


def _names(model: Proto) -> set[str]:
    names: set[str] = set()
    for graph in all_graphs(model.graph):
        names.update(each.name for each in (*graph.input, *graph.output, *graph.initializer))
        names.update(each for node in graph.node for each in (*node.input, *node.output))
    return names
