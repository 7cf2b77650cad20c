"""Pickles of arrays, read without executing code, with bounds on time and memory."""

import codecs
import math
import pickle
import pickletools
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import StudyDataError
from calibrant.studies.own_code import one_line

__all__ = ["load_pickle"]


PLAIN_TYPE = re.compile(r"[biufSU]\d{1,6}")
BYTE_ORDERS = ("<", ">", "=", "|")
MOST_ARGUMENTS = 32  # of a function, and dimensions of an array
COPIES = 8  # Budget in bytes per byte of the file: text becomes numbers of four bytes.
ROOM = 2**16  # additional budget, for small files


class Budget:
    """Number of bytes that may still be copied."""

    def __init__(self, n_bytes: int) -> None:
        self.limit = self.left = COPIES * n_bytes + ROOM

    def take(self, n_bytes: int) -> None:
        """Refuse to copy more bytes than are left."""
        self.left -= n_bytes
        if self.left < 0:
            raise pickle.UnpicklingError("it requests far more memory than its size")


class PickledType:
    """A numeric type, which replaces numpy.dtype in the pickle."""

    __slots__ = ("_type",)

    def __init__(self, name: Any) -> None:
        if not isinstance(name, str) or not PLAIN_TYPE.fullmatch(name):
            raise pickle.UnpicklingError(f"it has an array of type {_quoted(name)}")
        self._type = np.dtype(name)

    def build(self, state: Any) -> None:
        """Set the byte order; the rest of the state belongs to structured types, which are refused."""
        order = state[1]
        if order not in BYTE_ORDERS:
            raise pickle.UnpicklingError(f"it has an array of byte order {_quoted(order)}")
        self._type = self._type.newbyteorder(order)

    def read(self, raw: Any, shape: Any, fortran: Any, budget: Budget) -> NDArray[Any]:
        """Return an array from its bytes, which are text in pickles of Python 2."""
        if isinstance(raw, str | bytearray):
            budget.take(len(raw))
            raw = raw.encode("latin1") if isinstance(raw, str) else bytes(raw)
        if not isinstance(raw, bytes):
            raise pickle.UnpicklingError("it has an array of objects")
        if not isinstance(shape, tuple) or len(shape) > MOST_ARGUMENTS:
            raise pickle.UnpicklingError("it has an array without a shape")
        if not all(type(size) is int and 0 <= size <= budget.limit for size in shape):
            raise pickle.UnpicklingError("it has an array of an impossible shape")
        if math.prod(shape) * self._type.itemsize != len(raw):
            raise pickle.UnpicklingError("it has an array whose size does not match its bytes")
        array = np.frombuffer(raw, self._type) if raw else np.empty(0, self._type)
        return array.reshape(shape, order="F" if fortran else "C")


class PickledArray:
    """An array whose content is not known yet, which replaces the result of ``_reconstruct``."""

    __slots__ = ("content",)

    def __init__(self) -> None:
        self.content: NDArray[Any] | None = None


class Named:
    """A function or class of numpy that a pickle may name, with its replacement."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any] | None = None) -> None:
        self.call = call


def _made_array(_: Budget, *__: Any) -> PickledArray:
    return PickledArray()


def _made_type(_: Budget, name: Any, *__: Any) -> PickledType:
    return PickledType(name)


def _from_buffer(
    budget: Budget, raw: Any, kind: PickledType, shape: Any, order: Any, *_: Any
) -> NDArray[Any]:
    """Replace numpy's function of the same name, with which protocol 5 writes arrays."""
    return kind.read(raw, shape, order == "F", budget)


def _scalar(budget: Budget, kind: PickledType, raw: Any) -> Any:
    budget.take(len(raw))
    return kind.read(raw, (1,), False, budget)[0]


def _encoded(budget: Budget, text: Any, encoding: Any) -> bytes:
    """Replace ``_codecs.encode``, with which Python 3 writes bytes for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it has text in {_quoted(encoding)}")
    if not isinstance(text, str):
        raise pickle.UnpicklingError("it encodes something other than text")
    budget.take(len(text))
    return text.encode("latin1")


def _no_bytes(_: Budget) -> bytes:
    """Replace ``bytes``, which Python 3 calls without arguments to write empty bytes for Python 2."""
    return b""


# Everything that a pickle of numpy arrays and numbers needs, under the names of old and new numpy -> its replacement.
ADMITTED: dict[tuple[str, str], Named] = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): Named(_made_array) for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): Named(_scalar) for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): Named(_from_buffer) for core in ("core", "_core")},
    ("numpy", "ndarray"): Named(),
    ("numpy", "dtype"): Named(_made_type),
    ("_codecs", "encode"): Named(_encoded),
    ("__builtin__", "bytes"): Named(_no_bytes),
}


def _quoted(value: Any) -> str:
    return repr(value[:100]) if isinstance(value, str) else type(value).__name__


DEEPEST = 20  # levels of nested tuples and lists
MOST_STEPS = 5_000_000  # instructions of a pickle, each of which can create a small object

Stack = list[Any]


CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
PUSHED = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING"),
    *("BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
IGNORED = {"PROTO", "FRAME"}
INSTRUCTIONS = {each.code: each for each in pickletools.opcodes}
KEYS = (str, bytes, int, float, bool, type(None), np.number, np.bool_)


class _Machine:
    """Executes the instructions of a pickle that create arrays, numbers, text, tuples, lists and dictionaries.

    Python's unpickler allocates the declared size before it checks that the data exist, and hashes nested keys in exponential
    time. Here the time and memory of an instruction are proportional to its bytes, or are taken from a budget.
    """

    def __init__(self, content: bytes) -> None:
        self._stream = BytesIO(content)
        self._budget = Budget(len(content))
        self._stack: Stack = []
        self._marked: list[Stack] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Return the content of the pickle."""
        for _ in range(MOST_STEPS):
            name, argument = self._instruction()
            if name == "STOP":
                return _Finished(self._budget.limit).of(self._stack.pop(), DEEPEST)
            self._step(name, argument)
        raise pickle.UnpicklingError(f"it has more than {MOST_STEPS} instructions")

    def _instruction(self) -> tuple[str, Any]:
        code = self._stream.read(1)
        known = INSTRUCTIONS.get(code.decode("latin1"))
        if known is None:
            raise ValueError("the pickle ends too early, or has an unknown instruction")
        if known.name == "STRING":  # The standard library reads only ASCII here.
            return known.name, _quoted_text(self._stream.readline())
        return known.name, None if known.arg is None else known.arg.reader(self._stream)

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in PUSHED:
            stack.append(argument)
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in TUPLES:
            size = TUPLES[name]
            if len(stack) < size:
                raise ValueError("a tuple without items")
            items = tuple(stack[-size:])
            del stack[-size:]
            stack.append(items)
        elif name in IGNORED:
            pass
        else:
            method = getattr(self, f"_{name.lower()}", None)
            if method is None:
                raise pickle.UnpicklingError(f"it has the instruction {name}")
            method(argument)

    # The stack and its marks

    def _mark(self, _: Any) -> None:
        self._marked.append(self._stack)
        self._stack = []

    def _since_mark(self) -> Stack:
        items, self._stack = self._stack, self._marked.pop()
        return items

    def _pop(self, _: Any) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._since_mark()

    def _pop_mark(self, _: Any) -> None:
        self._since_mark()

    def _dup(self, _: Any) -> None:
        self._stack.append(self._stack[-1])

    # The memo

    def _put(self, number: int) -> None:
        self._memo[number] = self._stack[-1]

    _binput = _long_binput = _put

    def _memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _get(self, number: int) -> None:
        self._stack.append(self._memo[number])

    _binget = _long_binget = _get

    # Tuples, lists and dicts

    def _tuple(self, _: Any) -> None:
        items = self._since_mark()
        self._stack.append(tuple(items))

    def _empty_list(self, _: Any) -> None:
        self._stack.append([])

    def _list(self, _: Any) -> None:
        items = self._since_mark()
        self._stack.append(items)

    def _append(self, _: Any) -> None:
        item = self._stack.pop()
        self._of_top(list).append(item)

    def _appends(self, _: Any) -> None:
        items = self._since_mark()
        self._of_top(list).extend(items)

    def _empty_dict(self, _: Any) -> None:
        self._stack.append({})

    def _dict(self, _: Any) -> None:
        items = self._since_mark()
        self._stack.append({})
        self._set(items)

    def _setitem(self, _: Any) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set([key, value])

    def _setitems(self, _: Any) -> None:
        self._set(self._since_mark())

    def _set(self, items: Stack) -> None:
        target = self._of_top(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, KEYS) or (isinstance(key, int) and key.bit_length() > 64):
                raise pickle.UnpicklingError("it has a dictionary whose keys are neither text nor numbers")
            target[key] = value

    def _of_top(self, kind: type) -> Any:
        if type(self._stack[-1]) is not kind:
            raise ValueError(f"no {kind.__name__} to be filled")
        return self._stack[-1]

    # Names

    def _global(self, names: str) -> None:
        module, _, name = names.partition(" ")
        self._named(module, name)

    def _stack_global(self, _: Any) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._named(module, name)

    def _named(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise ValueError("names that are no text")
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module[:100]}.{name[:100]}")
        self._stack.append(ADMITTED[module, name])

    def _reduce(self, _: Any) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        if not isinstance(function, Named) or function.call is None or type(arguments) is not tuple:
            raise pickle.UnpicklingError("it calls something other than a function")
        if len(arguments) > MOST_ARGUMENTS:
            raise pickle.UnpicklingError("it calls a function with too many arguments")
        self._stack.append(function.call(self._budget, *arguments))

    def _build(self, _: Any) -> None:
        state = self._stack.pop()
        target = self._stack[-1]
        if isinstance(target, PickledType):
            target.build(state)
        elif isinstance(target, PickledArray):
            _, shape, kind, fortran, raw = state
            target.content = kind.read(raw, shape, fortran, self._budget)
        else:
            raise pickle.UnpicklingError("it modifies a named object")


class _Finished:
    """Replaces placeholders by arrays.

    Shared parts are visited once. Expanded, they must not have more items than the budget, so that later loops over them end.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[int, tuple[Any, int]] = {}

    def of(self, value: Any, depth: int) -> Any:
        """Return finished content."""
        return self._sized(value, depth)[0]

    def _sized(self, value: Any, depth: int) -> tuple[Any, int]:
        if depth == 0:
            raise pickle.UnpicklingError("it is nested too deeply")
        if isinstance(value, PickledArray):
            if value.content is None:
                raise pickle.UnpicklingError("it has an array without content")
            return value.content, value.content.nbytes + 1
        if isinstance(value, np.ndarray):
            return value, value.nbytes + 1
        if isinstance(value, str | bytes | bytearray):
            return value, len(value) + 1
        if isinstance(value, PickledType | Named):
            raise pickle.UnpicklingError("it has objects other than arrays")
        if not isinstance(value, tuple | list | dict):
            return value, 1
        if id(value) not in self._known:
            parts = [
                self._sized(each, depth - 1)
                for each in (value.values() if isinstance(value, dict) else value)
            ]
            size = 1 + sum(part[1] for part in parts)
            if size > self._limit:
                raise pickle.UnpicklingError("it repeats its parts far more often than its size allows")
            items = [part[0] for part in parts]
            found = dict(zip(value, items, strict=True)) if isinstance(value, dict) else type(value)(items)
            self._known[id(value)] = found, size
        return self._known[id(value)]


def load_pickle(path: Path) -> Any:
    """Return the arrays, numbers, tuples, lists and dictionaries of a pickle, without executing code.

    A pickle is a program. Here it can name only the functions that rebuild numpy arrays, and these are replaced by functions
    that create arrays of numbers and text from bytes. Time and memory are bounded by the size of the file. Pickles of
    Python 2 are read as latin1, which is correct for arrays.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StudyDataError(f"{path} cannot be read: {error.strerror}.") from error
    if content[:2] == b"PK":
        raise StudyDataError(f"{path} is an archive, not a pickle; give an NPZ file the ending .npz.")
    try:
        return _Machine(content).run()
    except pickle.UnpicklingError as error:
        raise StudyDataError(
            f"{path} is not a pickle of numpy arrays alone: {one_line(error)}; save the arrays with numpy.savez."
        ) from error
    except MemoryError:
        raise StudyDataError(f"{path} needs more memory than is available; it may be damaged.") from None
    except Exception as error:
        # Damaged bytes can raise almost any exception.
        raise StudyDataError(
            f"{path} is a damaged pickle of numpy arrays, {type(error).__name__}; download it again."
        ) from error


def _quoted_text(line: bytes) -> str:
    """Return a quoted and escaped text, as in arrays of Python 2."""
    text = line.rstrip(b"\n").strip()
    if len(text) < 2 or text[:1] not in (b"'", b'"') or text[-1:] != text[:1]:
        raise ValueError("text without quotes")
    return codecs.escape_decode(text[1:-1])[0].decode("latin1")
