"""What becomes of bad input: the right result, a clear error, or something worse.

Every kind of input is given to ``fit`` and ``predict_proba`` of every method. Some are odd but valid, such as big-endian or
read-only arrays: a right result is that of the plain array. Others have no meaning and must be refused.

Run it with ``python benchmarks/bad_input.py``, or with names of methods.
"""

# ruff: noqa: ARG005 - a kind of input may not depend on what is given

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from calibrant import Predictions, errors, registry
from calibrant.errors import CalibrationWarning

N_ROWS, N_CLASSES = 45, 3
RIGHT, ERROR, WRONG, INTERNAL = "right", "clear error", "wrong", "internal error"
OUTCOMES = (RIGHT, ERROR, WRONG, INTERNAL)
GROUPS = ("scores", "logits", "labels", "weights", "prediction")

# Stand-ins for parameters that would be chosen by folds, which takes time and is not what is tried here.
FAST = {
    "reg_lambda": 1e-3,
    "reg_mu": 1e-3,
    "n_neighbours": 10,
    "bandwidth": 0.1,
    "n_bins": 5,
    "n_iterations": 2,
    "weight_decay": 1e-2,
    "epsilon": 1e-4,
    "n_trees": 10,
    "candidates": ["temperature"],
}


class Kind(NamedTuple):
    """One kind of input.

    ``valid`` inputs must give the result of the plain array, up to ``tolerance``, or be refused; others must be refused,
    unless ``valid`` is None: then any probabilities will do.
    """

    group: str
    name: str
    change: Callable[["Given"], None]
    valid: bool | None = False
    tolerance: float = 1e-5


class Given:
    """Arguments of a fit and of a prediction, which a kind of input changes."""

    def __init__(self, n_classes: int) -> None:
        generator = np.random.default_rng(1)
        self.logits = 2 * generator.normal(size=(N_ROWS, n_classes))
        labels = (0.6 * self.logits + generator.gumbel(size=self.logits.shape)).argmax(axis=1)
        labels[:n_classes] = range(n_classes)
        exponentials = np.exp(self.logits)
        self.p = exponentials / exponentials.sum(axis=1, keepdims=True)
        self.labels = labels
        self.X: Any = self.p
        self.y: Any = labels
        self.weights: Any = None
        self.fresh: Any = self.p

    def outcome(self, name: str, kind: Kind, expected: np.ndarray) -> str:
        """Change these arguments and return what becomes of them."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", CalibrationWarning)
                warnings.simplefilter("ignore", PendingDeprecationWarning)  # of numpy.matrix itself
                kind.change(self)
                calibrated = made(name).fit(self.X, self.y, self.weights).predict_proba(self.fresh)
        except tuple(getattr(errors, each) for each in errors.__all__) as error:
            text = str(error)
            return ERROR if text.endswith(".") and "\n" not in text else INTERNAL
        except Exception as error:
            print(f"{name}, {kind.name}: {error!r}", file=sys.stderr)
            return INTERNAL
        rounding = np.finfo(calibrated.dtype).eps / 2
        sums_to_one = np.abs(calibrated.sum(axis=1, dtype=np.float64) - 1).max() < max(1e-5, rounding)
        good = bool(np.isfinite(calibrated).all() and (calibrated >= 0).all() and sums_to_one)
        if kind.valid:
            good &= calibrated.shape == expected.shape
            good = good and bool(np.abs(calibrated - expected).max() <= kind.tolerance)
        good &= kind.valid is not False
        if not good:
            print(f"{name}, {kind.name}: wrong", file=sys.stderr)
        return RIGHT if good else WRONG


def made(name: str) -> Any:
    calibrator = registry.make(name)
    parameters = calibrator.get_params()
    fast = {
        key: FAST[last] for key, last in ((key, key.rsplit("__")[-1]) for key in parameters) if last in FAST
    }
    seeds = {key: 0 for key in parameters if key.endswith("random_state")}
    kept = {
        key: value
        for key, value in {**fast, **seeds}.items()
        if key in seeds or parameters[key] in ("auto", "default") or key.endswith("n_trees")
    }
    return calibrator.set_params(**kept)


def scores(given: Given, X: Any) -> None:
    given.X = given.fresh = X


def with_entry(array: np.ndarray, value: Any, dtype: Any = None) -> np.ndarray:
    changed = array.astype(array.dtype if dtype is None else dtype)
    changed[4, 1] = value
    return changed


def masked(given: Given, is_masked: bool) -> np.ma.MaskedArray:
    mask = np.zeros(given.p.shape, bool)
    mask[4] = is_masked
    return np.ma.masked_array(given.p, mask)


def pandas_frame(p: np.ndarray, names: list[Any] | None = None, dtype: str = "float64") -> Any:
    import pandas as pd

    return pd.DataFrame(p, columns=names).astype(dtype)


def polars_frame(p: np.ndarray) -> Any:
    import polars as pl

    return pl.DataFrame({f"p{number}": column for number, column in enumerate(p.T)})


def pandas_null(given: Given) -> Any:
    import pandas as pd

    frame = pandas_frame(given.p, dtype="Float64")
    frame.iloc[4, 1] = pd.NA
    return frame


def polars_null(given: Given) -> Any:
    import polars as pl

    return polars_frame(given.p).with_columns(p0=pl.Series([None, *given.p[1:, 0]]))


def sparse(given: Given, kind: str) -> Any:
    import scipy.sparse

    return getattr(scipy.sparse, kind)(given.p)


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def kinds() -> Iterator[Kind]:
    """Yield all kinds of input."""
    yield from score_kinds()
    yield from logit_kinds()
    yield from label_kinds()
    yield from weight_kinds()
    yield from prediction_kinds()


def score_kinds() -> Iterator[Kind]:
    def valid(name: str, change: Callable[[Given], Any], tolerance: float = 1e-5) -> Kind:
        return Kind("scores", name, lambda g: scores(g, change(g)), True, tolerance)

    def refused(name: str, change: Callable[[Given], Any]) -> Kind:
        return Kind("scores", name, lambda g: scores(g, change(g)))

    def either(name: str, change: Callable[[Given], Any]) -> Kind:
        return Kind("scores", name, lambda g: scores(g, change(g)), None)

    yield valid("list of lists", lambda g: g.p.tolist())
    yield valid("tuple of tuples", lambda g: tuple(map(tuple, g.p.tolist())))
    yield valid("list of arrays", lambda g: list(g.p))
    yield valid("big-endian", lambda g: g.p.astype(">f8"))
    yield valid("Fortran order", lambda g: np.asfortranarray(g.p))
    yield valid("every second column of a wider array", lambda g: np.repeat(g.p, 2, axis=1)[:, ::2])
    yield valid("negative strides", lambda g: g.p[::-1].copy()[::-1])
    yield valid("read-only", lambda g: read_only(g.p))
    yield valid(
        "unaligned", lambda g: np.frombuffer(b"x" + g.p.tobytes(), np.float64, offset=1).reshape(g.p.shape)
    )
    yield valid("longdouble", lambda g: g.p.astype(np.longdouble))
    yield valid("object array of floats", lambda g: g.p.astype(object))
    yield valid("object array of Decimal", lambda g: np.array([[Decimal(float(v)) for v in r] for r in g.p]))
    yield valid(
        "object array of Fraction", lambda g: np.array([[Fraction(float(v)) for v in r] for r in g.p])
    )
    yield valid("numpy matrix", lambda g: np.asmatrix(g.p))
    yield valid("masked array without masked entries", lambda g: masked(g, False))
    yield valid("pandas frame", lambda g: pandas_frame(g.p))
    yield valid("pandas frame, Float64", lambda g: pandas_frame(g.p, dtype="Float64"))
    yield valid("pandas frame, duplicated column names", lambda g: pandas_frame(g.p, ["a"] * g.p.shape[1]))
    yield valid(
        "pandas frame, mixed column names", lambda g: pandas_frame(g.p, ["a", 1, 2.5][: g.p.shape[1]])
    )
    yield valid("polars frame", lambda g: polars_frame(g.p))
    yield valid("array subclass", lambda g: g.p.view(type("Own", (np.ndarray,), {})))
    yield either("float16", lambda g: g.p.astype(np.float16))
    yield either("float32", lambda g: g.p.astype(np.float32))
    yield either("one-hot rows", lambda g: np.eye(g.p.shape[1])[g.p.argmax(axis=1)])
    yield either("one-hot integers", lambda g: np.eye(g.p.shape[1], dtype=int)[g.p.argmax(axis=1)])
    yield either("booleans", lambda g: np.eye(g.p.shape[1], dtype=bool)[g.p.argmax(axis=1)])
    yield either("uniform rows", lambda g: np.full_like(g.p, 1 / g.p.shape[1]))
    yield either("all rows the same", lambda g: np.tile(g.p[0], (N_ROWS, 1)))
    yield either("subnormal numbers", lambda g: np.where(np.eye(g.p.shape[1])[g.labels] > 0, 1.0, 5e-324))
    yield refused("NaN", lambda g: with_entry(g.p, np.nan))
    yield refused("infinity", lambda g: with_entry(g.p, np.inf))
    yield refused("minus infinity", lambda g: with_entry(g.p, -np.inf))
    yield refused("negative", lambda g: with_entry(g.p, -0.5))
    yield refused("above one", lambda g: with_entry(g.p, 1.5))
    yield refused("a row of zeros", lambda g: g.p * (np.arange(N_ROWS) != 4)[:, None])
    yield refused("percent", lambda g: 100 * g.p)
    yield refused("rows that sum to 1.01", lambda g: 1.01 * g.p)
    yield refused("logits as probabilities", lambda g: g.logits)
    yield refused("counts that overflow", lambda g: with_entry(g.p, 1e308))
    yield refused("empty", lambda g: np.empty((0, g.p.shape[1])))
    yield refused("empty list", lambda g: [])
    yield refused("no columns", lambda g: np.empty((N_ROWS, 0)))
    yield refused("three axes", lambda g: g.p[:, :, None])
    yield refused("a number", lambda g: 0.5)
    yield refused("None", lambda g: None)
    yield refused("a string", lambda g: "probabilities")
    yield refused("a dictionary", lambda g: {"p": g.p})
    yield refused("a generator", lambda g: (row for row in g.p))
    yield refused("ragged lists", lambda g: [*g.p.tolist()[:-1], [1.0]])
    yield refused("strings", lambda g: g.p.astype(str))
    yield refused("bytes", lambda g: g.p.astype("S8"))
    yield refused("complex", lambda g: g.p.astype(complex))
    yield refused("dates", lambda g: g.p.astype("M8[s]"))
    yield refused("durations", lambda g: g.p.astype("m8[s]"))
    yield refused("structured array", lambda g: np.zeros(N_ROWS, [("a", float), ("b", float)]))
    yield refused("object array with None", lambda g: with_entry(g.p, None, object))
    yield refused("object array with text", lambda g: with_entry(g.p, "many", object))
    yield refused("object array with a list", lambda g: with_entry(g.p, (1, 2), object))
    yield refused("masked entries", lambda g: masked(g, True))
    yield refused("pandas frame with nulls", pandas_null)
    yield refused("polars frame with nulls", polars_null)
    for kind in ("csr_matrix", "csr_array", "coo_array"):
        yield refused(f"sparse, {kind}", lambda g, kind=kind: sparse(g, kind))
    yield refused("fewer rows than labels", lambda g: g.p[:-1])
    yield refused("one row", lambda g: g.p[:1])


def logit_kinds() -> Iterator[Kind]:
    def kind(name: str, change: Callable[[Given], Any], valid: bool | None = None) -> Kind:
        return Kind("logits", name, lambda g: scores(g, Predictions.from_logits(change(g))), valid)

    for size in (1e-300, 1e-40, 1e3, 1e9, 1e38, 1e300):
        yield kind(f"times {size:g}", lambda g, size=size: size * g.logits)
    for size in (1e-40, 1e3, 1e38):
        yield kind(
            f"times {size:g}, float32",
            lambda g, size=size: np.clip(size * g.logits, -3e38, 3e38).astype(np.float32),
        )
    yield kind("a class masked by -finfo.max", lambda g: with_entry(g.logits, np.finfo(float).min))
    yield kind("plus 1e9", lambda g: g.logits + 1e9)
    yield kind("float16", lambda g: g.logits.astype(np.float16))
    yield kind("all equal", lambda g: np.zeros_like(g.logits) - 2)
    yield kind("NaN", lambda g: with_entry(g.logits, np.nan), False)
    yield kind("minus infinity", lambda g: with_entry(g.logits, -np.inf), False)
    yield kind("probabilities as logits", lambda g: g.p, False)


def label_kinds() -> Iterator[Kind]:
    def kind(name: str, change: Callable[[Given], Any], valid: bool | None = False) -> Kind:
        return Kind("labels", name, lambda g: setattr(g, "y", change(g)), valid)

    def series(values: Any, dtype: str) -> Any:
        import pandas as pd

        return pd.Series(values, dtype=dtype)

    yield kind("list", lambda g: g.labels.tolist(), True)
    yield kind("strings", lambda g: np.array(["ant", "bee", "cat"])[g.labels], True)
    yield kind("floats that are whole", lambda g: g.labels.astype(float), True)
    yield kind("unsigned bytes", lambda g: g.labels.astype(np.uint8), True)
    yield kind("big-endian", lambda g: g.labels.astype(">i4"), True)
    yield kind("one column", lambda g: g.labels[:, None], True)
    yield kind("other integers", lambda g: 10 * g.labels + 7, True)
    yield kind("pandas series", lambda g: series(g.labels, "Int64"), True)
    yield kind(
        "pandas categories", lambda g: series(np.array(["ant", "bee", "cat"])[g.labels], "category"), True
    )
    yield kind("text of pandas", lambda g: series(np.array(["ant", "bee", "cat"])[g.labels], "string"), True)
    yield kind("one class absent", lambda g: np.minimum(g.labels, 1), None)
    yield kind("one class only", lambda g: np.zeros(N_ROWS, int))
    yield kind("out of range", lambda g: np.where(np.arange(N_ROWS) == 4, 99, g.labels))
    yield kind("negative", lambda g: np.where(np.arange(N_ROWS) == 4, -7, g.labels))
    yield kind("NaN", lambda g: np.where(np.arange(N_ROWS) == 4, np.nan, g.labels))
    yield kind("None", lambda g: [None, *g.labels.tolist()[1:]])
    yield kind("fractions", lambda g: g.labels + 0.5)
    yield kind("complex", lambda g: g.labels.astype(complex))
    yield kind("one-hot", lambda g: np.eye(g.p.shape[1])[g.labels])
    yield kind("bytes", lambda g: g.labels.astype("S1"))
    yield kind("strings and integers", lambda g: ["ant", *g.labels.tolist()[1:]])
    yield kind("all different", lambda g: [f"label {number}" for number in range(N_ROWS)])
    yield kind("too few", lambda g: g.labels[:-1])
    yield kind("too many", lambda g: np.append(g.labels, 0))
    yield kind("a number", lambda g: 1)
    yield kind("nothing", lambda g: [])
    yield kind("None for all", lambda g: None)
    yield kind("huge integers", lambda g: [10**30, *g.labels.tolist()[1:]])


def weight_kinds() -> Iterator[Kind]:
    def kind(name: str, change: Callable[[np.ndarray], Any], valid: bool | None = False) -> Kind:
        return Kind("weights", name, lambda g: setattr(g, "weights", change(np.ones(N_ROWS))), valid)

    def first(ones: np.ndarray, value: float) -> np.ndarray:
        return np.where(np.arange(N_ROWS) == 4, value, ones)

    yield kind("ones", lambda ones: ones, True)
    yield kind("ones as booleans", lambda ones: ones.astype(bool), True)
    yield kind("ones as text of numbers", lambda ones: ones.astype(str), None)
    yield kind("list of integers", lambda ones: [1] * N_ROWS, True)
    yield kind("sum to one", lambda ones: ones / N_ROWS, None)
    yield kind("one is zero", lambda ones: first(ones, 0.0), None)
    yield kind("one is 1e-300", lambda ones: first(ones, 1e-300), None)
    yield kind("one is 1e16", lambda ones: first(ones, 1e16), None)
    yield kind("all 1e300", lambda ones: 1e300 * ones, None)
    yield kind("all 1e-320", lambda ones: 1e-320 * ones, None)
    yield kind("float16", lambda ones: ones.astype(np.float16), True)
    yield kind("negative", lambda ones: first(ones, -1.0))
    yield kind("NaN", lambda ones: first(ones, np.nan))
    yield kind("infinity", lambda ones: first(ones, np.inf))
    yield kind("all zero", lambda ones: 0 * ones)
    yield kind("too large to be added up", lambda ones: 1.7e308 * ones)
    yield kind("too few", lambda ones: ones[:-1])
    yield kind("a matrix", lambda ones: ones[:, None])
    yield kind("a number", lambda ones: 2.0)
    yield kind("text", lambda ones: ["heavy"] * N_ROWS)
    yield kind("complex", lambda ones: ones + 1j)
    yield kind("None among them", lambda ones: [None, *ones[1:]])


def prediction_kinds() -> Iterator[Kind]:
    def kind(name: str, change: Callable[[Given], Any], valid: bool | None = False) -> Kind:
        return Kind("prediction", name, lambda g: setattr(g, "fresh", change(g)), valid)

    yield kind("big-endian float32", lambda g: g.p.astype(">f4"), None)
    yield kind("zeros and ones", lambda g: np.eye(g.p.shape[1]), None)
    yield kind("one row", lambda g: g.p[:1], None)
    yield kind("NaN", lambda g: with_entry(g.p, np.nan))
    yield kind("another number of columns", lambda g: np.full((5, 7), 1 / 7))
    yield kind("empty", lambda g: g.p[:0])
    yield kind("logits", lambda g: g.logits)
    yield kind("sparse", lambda g: sparse(g, "csr_matrix"))
    yield kind("text", lambda g: g.p.astype(str))


def table(names: list[str]) -> dict[tuple[str, str], Counter[str]]:
    """Return the outcomes of every kind of input, over all methods."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for name in names:
        n_classes = 2 if registry.make(name).traits.binary_only else N_CLASSES
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            plain = Given(n_classes)
            expected = made(name).fit(plain.X, plain.y).predict_proba(plain.fresh)
        for kind in kinds():
            outcome = Given(n_classes).outcome(name, kind, expected)
            counts.setdefault((kind.group, kind.name), Counter())[outcome] += 1
    return counts


def main(names: list[str]) -> None:
    counts = table(names or registry.calibrators())
    print(f"| argument | kind | {' | '.join(OUTCOMES)} |")
    print(f"|---|---|{'---:|' * len(OUTCOMES)}")
    total: Counter[str] = Counter()
    for (group, name), found in counts.items():
        total += found
        print(f"| {group} | {name} | {' | '.join(str(found[outcome]) for outcome in OUTCOMES)} |")
    print(f"| all | {len(counts)} kinds | {' | '.join(str(total[outcome]) for outcome in OUTCOMES)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
