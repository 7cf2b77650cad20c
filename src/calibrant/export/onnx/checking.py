"""Checks of ONNX models before ONNX Runtime loads them: no external data, and bounded memory and time."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import FileFormatError
from calibrant.export.backend import LARGEST_VALUE, MOST_ENTRIES, MOST_WORK
from calibrant.persistence.schema import quoted

__all__ = ["Proto", "all_graphs", "check_model"]

Proto = Any
"""A message of the library onnx."""

# The operators of exports: none reads a file, and only Loop and Scan repeat their nodes.
OPERATORS = frozenset({
    "Abs", "Add", "And", "ArgMax", "Cast", "Concat", "CumSum", "Div", "Equal", "Exp", "Gather",
    "GatherElements", "Greater", "GreaterOrEqual", "Identity", "If", "Less", "LessOrEqual", "Log",
    "LogSoftmax", "Loop", "MatMul", "Max", "Min", "Mul", "Neg", "Not", "Reciprocal", "ReduceMax",
    "ReduceMean", "ReduceMin", "ReduceSum", "ScatterElements", "Scan", "Softmax", "Sqrt", "Squeeze", "Sub",
    "Tanh", "TopK", "Where",
})  # fmt: skip

REPEATED = ("Loop", "Scan")

MOST_STEPS = 40
"""Repetitions of a loop."""

SMALL = 1024
"""Entries of a fitted array of which a shape may depend."""

FIRST = "/plain/first"
"""Name of a zero."""


def check_model(path: Path, model: Proto, onnx: Any, shape: tuple[int, ...]) -> None:
    """Raise an error for a model that is not an export, given the shape of the scores that it will be applied to.

    Sizes of all values follow from the number of rows. Loops are checked as one step, whose state must keep its shape.
    """
    _check_messages(path, model, onnx)
    used = {(node.domain, node.op_type) for graph in all_graphs(model.graph) for node in graph.node}
    unknown = sorted(operator for domain, operator in used if domain or operator not in OPERATORS)
    if unknown or len(model.functions):
        raise _refused(path, f"the operator {quoted((unknown or ['of a function'])[0])}")
    versions = [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")]
    if len(versions) != 1:
        raise _refused(path, "no operator set, or several")
    plain = _Plain(path, onnx, versions[0], shape[1])
    plain.add(model.graph, n_steps=1)
    plain.check(model, shape)


def all_graphs(graph: Proto) -> list[Proto]:
    """Return a graph and those inside of its nodes."""
    found, pending = [], [graph]
    while pending:
        current = pending.pop()
        found.append(current)
        for node in current.node:
            pending.extend(attribute.g for attribute in node.attribute if attribute.HasField("g"))
            pending.extend(each for attribute in node.attribute for each in attribute.graphs)
    return found


def _messages(message: Proto) -> Iterator[Proto]:
    """Return a message and all messages inside of it."""
    pending = [message]
    while pending:
        current = pending.pop()
        yield current
        for field, value in current.ListFields():
            if field.message_type is not None:
                pending.extend([value] if hasattr(value, "ListFields") else value)


def _check_messages(path: Path, model: Proto, onnx: Any) -> None:
    """Raise an error for external tensors anywhere in the model, and for sparse or training data."""
    for message in _messages(model):
        if isinstance(message, onnx.TensorProto):
            if message.data_location == onnx.TensorProto.EXTERNAL or len(message.external_data):
                raise FileFormatError(
                    f"{path} refers to other files, which no export does; export the calibrator again."
                )
        elif isinstance(message, onnx.SparseTensorProto):
            raise _refused(path, "a sparse tensor")
        elif isinstance(message, onnx.TrainingInfoProto):
            raise _refused(path, "steps of training")


@dataclass
class _Repeats:
    """Names of the values that a node gives, and how often it runs."""

    names: list[str]
    n_steps: int


class _Plain:
    """The nodes of a model without loops and branches: bodies once, and both branches of a condition."""

    def __init__(self, path: Path, onnx: Any, version: int, n_columns: int) -> None:
        self.path = path
        self.onnx = onnx
        self.version = version
        self.n_columns = max(n_columns, 2)  # a single column is that of the second class of two
        self.nodes: list[Proto] = []
        self.runs: list[_Repeats] = []
        self.same: list[tuple[str, str]] = []
        self.scanned: list[str] = []
        self.initializers: dict[str, Proto] = {}

    def add(self, graph: Proto, n_steps: int) -> None:
        """Add the nodes of a graph; those of a body run ``n_steps`` times."""
        for tensor in graph.initializer:
            if tensor.name in self.initializers:
                raise _refused(self.path, "several values of one name")
            self.initializers[tensor.name] = tensor
        for node in graph.node:
            if node.op_type == "If":
                self._add_branches(node, n_steps)
            elif node.op_type in REPEATED:
                if n_steps > 1:
                    raise _refused(self.path, "a loop inside of a loop")
                (self._add_loop if node.op_type == "Loop" else self._add_scan)(node)
            else:
                self._emit(node, n_steps)

    def _emit(self, node: Proto, n_steps: int) -> None:
        self.nodes.append(node)
        self.runs.append(_Repeats([name for name in node.output if name], n_steps))

    def _rename(self, source: str, target: str, n_steps: int = 1) -> None:
        self._emit(self.onnx.helper.make_node("Identity", [source], [target]), n_steps)

    def _graphs(self, node: Proto, *names: str) -> list[Proto]:
        found = {attribute.name: attribute.g for attribute in node.attribute if attribute.HasField("g")}
        if set(found) != set(names):
            raise _refused(self.path, f"a node {node.op_type} with other parts")
        return [found[name] for name in names]

    def _add_branches(self, node: Proto, n_steps: int) -> None:
        branches = self._graphs(node, "then_branch", "else_branch")
        for branch in branches:
            self.add(branch, n_steps)
        for name, *ends in zip(node.output, *(branch.output for branch in branches), strict=True):
            self.same.append((ends[0].name, ends[1].name))
            self._rename(ends[0].name, name, n_steps)

    def _add_loop(self, node: Proto) -> None:
        (body,) = self._graphs(node, "body")
        most, condition, *state = node.input
        n_steps = self._number(most)
        if not 0 < n_steps <= MOST_STEPS or len(body.output) != len(body.input) - 1 != len(state) + 1:
            raise _refused(self.path, f"a loop of {n_steps} steps, or with results of every step")
        number, goes_on, *inner = (each.name for each in body.input)
        self._rename(most, number)
        self._rename(condition, goes_on)
        for outer, name in zip(state, inner, strict=True):
            self._rename(outer, name)
        self.add(body, n_steps)
        after = [each.name for each in body.output]
        self.same.extend(zip([goes_on, *inner], after, strict=True))
        for source, name in zip(after[1:], node.output, strict=True):
            self._rename(source, name)

    def _add_scan(self, node: Proto) -> None:
        """Add a scan along the columns whose results have the shape of what is scanned, as those of exports."""
        (body,) = self._graphs(node, "body")
        given: dict[str, Any] = {
            each.name: list(each.ints) or each.i for each in node.attribute if each.name != "body"
        }
        n_scanned = given.get("num_scan_inputs", 0)
        n_state = len(node.input) - n_scanned
        expected = {
            "num_scan_inputs": n_scanned,
            "scan_input_axes": [1] * n_scanned,
            "scan_output_axes": [1] * (len(node.output) - n_state),
        }
        if given != expected or not 0 < n_scanned <= len(node.input):
            raise _refused(self.path, "a scan of another form")
        before, after = ([each.name for each in side] for side in (body.input, body.output))
        for place, (outer, name) in enumerate(zip(node.input, before, strict=True)):
            if place < n_state:
                self._rename(outer, name)
            else:
                self._emit(self.onnx.helper.make_node("Gather", [outer, FIRST], [name], axis=1), 1)
        self.add(body, self.n_columns)
        first = node.input[n_state]
        self.scanned.append(first)
        for place, (source, name) in enumerate(zip(after, node.output, strict=True)):
            self.same.append((before[min(place, n_state)], source))
            self._rename(source if place < n_state else first, name)

    def _number(self, name: str) -> int:
        """Return a single integer of the file; that of any other value is unknown, and -1."""
        tensor = self.initializers.get(name)
        if tensor is None or tensor.data_type != self.onnx.TensorProto.INT64 or len(tensor.dims):
            return -1
        return int(self.onnx.numpy_helper.to_array(tensor))

    # Sizes

    def check(self, model: Proto, shape: tuple[int, ...]) -> None:
        """Refuse a model with large values, or with sizes that nothing says."""
        given = [*model.graph.input]
        if len(given) != 1 or len(given[0].type.tensor_type.shape.dim) != 2:
            raise _refused(self.path, "inputs other than scores of (rows, classes)")
        if given[0].type.tensor_type.shape.dim[1].dim_value != shape[1]:
            raise FileFormatError(
                f"{self.path} takes scores of another shape than (rows, {shape[1]}); compare it with the calibrator that it was "
                "exported from."
            )
        made = [name for run in self.runs for name in run.names]
        if len({*made, *self.initializers, given[0].name}) < len(made) + len(self.initializers) + 1:
            raise _refused(self.path, "several values of one name")
        shapes = self._shapes(given[0], shape)
        unknown = [name for name in made if name not in shapes]
        if unknown:
            raise _refused(self.path, f"the value {quoted(unknown[0])} of a size that depends on others")
        if any(shapes[first] != shapes[second] for first, second in self.same):
            raise _refused(self.path, "a loop whose values change their shape")
        if any(len(shapes[name]) != 2 or shapes[name][1] > self.n_columns for name in self.scanned):
            raise _refused(self.path, "a scan of more columns than the scores have")
        self._check_sizes(shapes)

    def _shapes(self, scores: Proto, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all values that are known, from those of the scores."""
        helper = self.onnx.helper
        small = [tensor for tensor in self.initializers.values() if prod(tensor.dims) <= SMALL]
        inputs = [helper.make_tensor_value_info(scores.name, scores.type.tensor_type.elem_type, shape)]
        inputs += [
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            for tensor in self.initializers.values()
            if prod(tensor.dims) > SMALL
        ]
        first = self.onnx.numpy_helper.from_array(np.array(0), FIRST)
        plain = helper.make_model(
            helper.make_graph(self.nodes, "plain", inputs, [], [*small, first]),
            opset_imports=[helper.make_opsetid("", self.version)],
        )
        inferred = self.onnx.shape_inference.infer_shapes(
            plain, check_type=True, strict_mode=True, data_prop=True
        )
        found = {tensor.name: tuple(tensor.dims) for tensor in self.initializers.values()}
        for value in (*inferred.graph.input, *inferred.graph.value_info):
            tensor = value.type.tensor_type
            if tensor.HasField("shape") and all(each.HasField("dim_value") for each in tensor.shape.dim):
                found[value.name] = tuple(each.dim_value for each in tensor.shape.dim)
        return found

    def _check_sizes(self, shapes: dict[str, tuple[int, ...]]) -> None:
        sizes = {name: prod(shape) for name, shape in shapes.items()}
        if max(sizes.values()) > LARGEST_VALUE:
            raise _refused(self.path, f"intermediate values of {max(sizes.values())} entries")
        if sum(sizes.values()) > MOST_ENTRIES:
            raise _refused(self.path, f"{sum(sizes.values())} entries in all values together")
        work = 0
        for node, run in zip(self.nodes, self.runs, strict=True):
            inner = shapes[node.input[0]][-1] if node.op_type == "MatMul" else 1
            work += run.n_steps * inner * sum(sizes[name] for name in run.names)
        if work > MOST_WORK:
            raise _refused(self.path, f"work of {work} steps")


def _refused(path: Path, what: str) -> FileFormatError:
    return FileFormatError(f"{path} has {what}, which no export has; export the calibrator again.")
