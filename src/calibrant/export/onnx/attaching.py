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
from calibrant.export.onnx import (
    IR_VERSION,
    OPSET,
    ROWS,
    computed,
    imported,
    set_metadata,
    tensor_of,
    to_nodes,
)
from calibrant.export.onnx.arrays import SymbolicArrays
from calibrant.export.onnx.checking import Proto, all_graphs
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
        Output of the model with the scores: a float tensor (rows, K), or (rows, 1) for the second of two classes; or the maps
        that skl2onnx makes of such a tensor by default. Needed if several outputs could be meant.
    space : {"probabilities", "logits"}, optional
        Space of the output; by default that of the fit.
    name : str, default="calibrated"
        Name of the new output, which replaces the old one.

    Returns
    -------
    onnx.ModelProto
        A model from the inputs of the classifier to calibrated probabilities (rows, K), in the float type of the scores;
        float16 is computed in float32. Other outputs, such as predicted labels, stay those of the classifier. Models with an
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
    _replace_maps(combined, output, onnx)
    n_classes = len(calibrator.classes_)
    place = _place(combined, output, onnx, n_classes)
    scores = combined.graph.output[place]
    kind, n_columns = _kind(scores, onnx, n_classes)
    half = kind == np.float16
    content = exportable(
        calibrator,
        dtype=np.dtype(np.float32) if half else kind,
        space=space,
        columns=[scores.name] if n_columns < n_classes else None,
    )
    combined = _upgraded(combined, onnx)
    taken = _names(combined)
    if name in taken:
        raise ParameterError(f"the model has a value called {name!r} already; pass another name.")
    prefix = "calibrator_"
    while any(each.startswith(prefix) for each in taken | {name}):
        prefix = f"_{prefix}"
    given, made = (prefix + "scores", prefix + "probabilities") if half else (scores.name, name)
    arrays = SymbolicArrays(content.dtype, prefix)
    result = applied(arrays, content.graph, arrays.symbol(given, content.dtype))
    arrays.main.nodes.append(("Identity", [result.name], [made], {}))
    nodes = to_nodes(arrays.main, onnx)
    initializers = [onnx.numpy_helper.from_array(array, key) for key, array in arrays.initializers.items()]
    part = onnx.helper.make_graph(
        nodes,
        "calibrator",
        [tensor_of(onnx, given, content.dtype, [ROWS, content.graph.n_columns])],
        [tensor_of(onnx, made, content.dtype, [ROWS, content.graph.n_outputs])],
        initializers,
    )
    _check_part(part, combined, made, content, onnx)
    if half:
        to_single, to_half = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
        nodes.insert(0, onnx.helper.make_node("Cast", [scores.name], [given], to=to_single))
        nodes.append(onnx.helper.make_node("Cast", [made], [name], to=to_half))
    combined.graph.node.extend(nodes)
    combined.graph.initializer.extend(initializers)
    replacement = combined.graph.output[place]
    replacement.name = name
    replacement.type.tensor_type.shape.dim[1].dim_value = content.graph.n_outputs
    set_metadata(combined, content, attached=True)
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


def _replace_maps(model: Proto, output: str | None, onnx: Any) -> None:
    """Replace outputs that are one map per row, from labels to scores, by the tensors of which the maps are made."""
    outputs = {each.name: each for each in model.graph.output if output in (None, each.name)}
    for node in list(model.graph.node):
        if node.op_type != "ZipMap" or node.output[0] not in outputs:
            continue
        found = outputs[node.output[0]]
        kind = found.type.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type
        n_labels = sum(len(each.ints) + len(each.strings) for each in node.attribute)
        found.CopyFrom(onnx.helper.make_tensor_value_info(found.name, kind, [None, n_labels]))
        node.CopyFrom(onnx.helper.make_node("Identity", [node.input[0]], [found.name]))


def _place(model: Proto, output: str | None, onnx: Any, n_classes: int) -> int:
    names = [each.name for each in model.graph.output]
    if output is None and len(names) == 1:
        return 0
    if output is None:
        usable = [
            place
            for place, each in enumerate(model.graph.output)
            if _is_usable(*_type_and_shape(each, onnx), n_classes)
        ]
        if len(usable) == 1:
            return usable[0]
    if output not in names:
        listed = ", ".join(map(repr, names))
        wrong = "the model has several outputs" if output is None else f"the model has no output {output!r}"
        raise ParameterError(f"{wrong}; pass output= as one of {listed}.")
    return names.index(output)


def _type_and_shape(output: Proto, onnx: Any) -> tuple[np.dtype[Any] | None, list[int | None]]:
    """Return the float type of an output, None for all others, and its shape with None for any length."""
    kinds: dict[int, np.dtype[Any]] = {
        onnx.TensorProto.FLOAT16: np.dtype(np.float16),
        onnx.TensorProto.FLOAT: np.dtype(np.float32),
        onnx.TensorProto.DOUBLE: np.dtype(np.float64),
    }
    tensor = output.type.tensor_type
    kind = kinds.get(tensor.elem_type) if output.type.HasField("tensor_type") else None
    return kind, [each.dim_value or None for each in tensor.shape.dim]


def _is_usable(kind: np.dtype[Any] | None, shape: list[int | None], n_classes: int) -> bool:
    widths = (None, n_classes, 1) if n_classes == 2 else (None, n_classes)
    return kind is not None and len(shape) == 2 and shape[1] in widths


def _kind(scores: Proto, onnx: Any, n_classes: int) -> tuple[np.dtype[Any], int]:
    """Return the float type of an output, whose shape must be (rows, classes), and its number of columns."""
    kind, shape = _type_and_shape(scores, onnx)
    if kind is None:
        raise ExportError(
            f"the output {scores.name!r} is no tensor of float16, float32 or float64; choose another output, or convert the "
            "classifier so that it returns an array of scores."
        )
    if not _is_usable(kind, shape, n_classes):
        shown = ", ".join("any" if each is None else str(each) for each in shape)
        raise ExportError(
            f"the output {scores.name!r} has shape ({shown}), but the calibrator takes (rows, {n_classes}); choose another "
            "output, or the calibrator that was fitted for this classifier."
        )
    return kind, shape[1] or n_classes


def _upgraded(model: Proto, onnx: Any) -> Proto:
    """Return the model with the operator set of calibrators or a later one."""
    # Some converters import a domain twice, or no default domain if all nodes are of ai.onnx.ml.
    versions: dict[str, int] = {}
    for each in model.opset_import:
        domain = "" if each.domain == "ai.onnx" else each.domain
        versions[domain] = max(each.version, versions.get(domain, 0))
    own = versions.setdefault("", OPSET)
    del model.opset_import[:]
    model.opset_import.extend(
        onnx.helper.make_opsetid(domain, version) for domain, version in versions.items()
    )
    if own < OPSET:
        try:
            model = onnx.version_converter.convert_version(model, OPSET)
        except Exception as error:  # RuntimeError and others of the converter
            raise ExportError(
                f"the model has operator set {own} and cannot be converted to {OPSET}; export the classifier again with opset "
                f"{OPSET}."
            ) from error
    model.ir_version = max(model.ir_version, IR_VERSION)
    return model


def _names(model: Proto) -> set[str]:
    names: set[str] = set()
    for graph in all_graphs(model.graph):
        names.update(each.name for each in (*graph.input, *graph.output, *graph.initializer))
        names.update(each for node in graph.node for each in (*node.input, *node.output))
    return names
