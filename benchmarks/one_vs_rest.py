"""Fit and prediction times of binary methods, class against rest, against other libraries in one run on the same rows.

Prints, for every size, seconds of a fit and of a prediction of as many rows (best of several runs), the ratios to the
peer, and the log-loss of both on the rows predicted, true classes below 1e-15 counted as that. Peers other than
scikit-learn take part where they are installed: betacal, netcal, venn-abers. A peer for two classes is put through one
loop over the classes, and rows are divided by their sums. Made rows: probabilities in float64, 1.5 times over-confident.
Usage::

    python benchmarks/one_vs_rest.py [--sizes 5000x10 5000x100] [--threads 1]
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=["5000x10", "5000x100"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the fastest counts")
    return parser.parse_args()


ARGUMENTS = parsed_arguments()
# Before numpy is imported: the libraries read these once.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CALIBRANT_NUM_THREADS"):
    os.environ[variable] = str(ARGUMENTS.threads)

import numpy as np  # noqa: E402
from sklearn.calibration import _SigmoidCalibration  # noqa: E402
from sklearn.isotonic import IsotonicRegression  # noqa: E402

import calibrant  # noqa: E402
from calibrant import Predictions, registry  # noqa: E402

Fit = Callable[[Any, Any], Any]
Predict = Callable[[Any, Any], Any]


def made_rows(n_rows: int, n_classes: int, seed: int) -> tuple[Any, Any]:
    """Over-confident probabilities with labels of all classes."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=1.5, size=(n_rows, n_classes))
    labels = generator.integers(n_classes, size=n_rows)
    labels[:n_classes] = np.arange(n_classes)
    logits[np.arange(n_rows), labels] += 2.0 + np.log(n_classes) / 2
    return np.array(Predictions.from_logits(1.5 * logits).probabilities), labels


def class_by_class(fit_binary: Callable[[Any, Any], Any], predict_binary: Callable[[Any, Any], Any]) -> Any:
    """Return fit and prediction of one map for each class, in a plain loop."""

    def fit(p: Any, labels: Any) -> Any:
        return [fit_binary(p[:, column], labels == column) for column in range(p.shape[1])]

    def predict(maps: Any, p: Any) -> Any:
        separate = np.column_stack(
            [predict_binary(binary, p[:, column]) for column, binary in enumerate(maps)]
        )
        return separate / np.maximum(separate.sum(axis=1, keepdims=True), 1e-300)

    return fit, predict


def ours(name: str, **parameters: Any) -> tuple[Fit, Predict]:
    return (
        lambda p, labels: registry.make(name, **parameters).fit(p, labels),
        lambda fitted, p: fitted.predict_proba(p),
    )


def netcals(name: str, **parameters: Any) -> tuple[Fit, Predict]:
    import netcal.binning

    return (
        lambda p, labels: getattr(netcal.binning, name)(**parameters).fit(p, labels),
        lambda fitted, p: fitted.transform(p),
    )


def pairs() -> Iterator[tuple[str, tuple[Fit, Predict], str, tuple[Fit, Predict] | None]]:
    """Yield a method of ours and the same of a peer."""
    yield (
        "isotonic",
        ours("isotonic"),
        "scikit-learn IsotonicRegression",
        class_by_class(
            lambda s, o: IsotonicRegression(out_of_bounds="clip").fit(s, o),
            lambda fitted, s: fitted.predict(s),
        ),
    )
    sigmoid = class_by_class(
        lambda s, o: _SigmoidCalibration().fit(s, o), lambda fitted, s: fitted.predict(s)
    )
    yield "platt", ours("platt"), "scikit-learn sigmoid, on p", sigmoid
    yield (
        "platt, on p, smoothed",
        ours("platt", feature="probability", smoothed_targets=True),
        "scikit-learn sigmoid, on p",
        sigmoid,
    )
    if find_spec("betacal"):
        from betacal import BetaCalibration

        peer = class_by_class(
            lambda s, o: BetaCalibration("abm").fit(s.reshape(-1, 1), o), lambda fitted, s: fitted.predict(s)
        )
        yield "beta", ours("beta"), "betacal", peer
    else:
        yield "beta", ours("beta"), "", None
    if find_spec("venn_abers"):
        from venn_abers import VennAbers

        def fit_venn_abers(scores: Any, outcomes: Any) -> Any:
            fitted = VennAbers()
            fitted.fit(np.column_stack([1 - scores, scores]), outcomes.astype(int))
            return fitted

        peer = class_by_class(
            fit_venn_abers,
            lambda fitted, s: fitted.predict_proba(np.column_stack([1 - s, s]))[0][:, 1],
        )
        yield "venn-abers", ours("venn-abers"), "venn-abers", peer
    else:
        yield "venn-abers", ours("venn-abers"), "", None
    if find_spec("netcal"):
        yield (
            "width-binning, 15 bins",
            ours("width-binning", n_bins=15),
            "netcal HistogramBinning, 15 bins",
            netcals("HistogramBinning", bins=15),
        )
        yield "isotonic", ours("isotonic"), "netcal IsotonicRegression", netcals("IsotonicRegression")
        yield "bbq", ours("bbq"), "netcal BBQ", netcals("BBQ")
        yield "enir", ours("enir"), "netcal ENIR", netcals("ENIR")
    else:
        for name in ("width-binning", "bbq", "enir"):
            yield name, ours(name), "", None
    for name in (
        "frequency-binning",
        "scaling-binning",
        "irm",
        "ets",
        "cross-venn-abers",
        "top-label-binning",
    ):
        yield name, ours(name), "", None


def fastest(compute: Callable[[], Any]) -> tuple[float, Any]:
    """Return the smallest time and the last result; what takes five seconds or more is run once."""
    best = np.inf
    for _ in range(ARGUMENTS.repeats):
        start = time.perf_counter()
        result = compute()
        best = min(best, time.perf_counter() - start)
        if best > 5:
            break
    return best, result


def measured(
    method: tuple[Fit, Predict], calibration: tuple[Any, Any], test: tuple[Any, Any]
) -> tuple[float, ...]:
    fit, predict = method
    fit_seconds, fitted = fastest(lambda: fit(*calibration))
    predict_seconds, p = fastest(lambda: predict(fitted, test[0]))
    chosen = np.maximum(p[np.arange(len(p)), test[1]], 1e-15)
    return fit_seconds, predict_seconds, float(-np.log(chosen).mean())


def compare(n_rows: int, n_classes: int) -> None:
    calibration, test = (made_rows(n_rows, n_classes, seed) for seed in (0, 1))
    chosen = test[0][np.arange(n_rows), test[1]]
    print(f"\n{n_rows:,} x {n_classes:,}, log-loss uncalibrated {-np.log(chosen).mean():.5f}")
    print(f"  {'method':52s} {'fit s':>9s} {'ratio':>6s} {'predict s':>9s} {'ratio':>6s} {'log-loss':>9s}")
    for name, method, peer, other in pairs():
        mine = measured(method, calibration, test)
        print_line(name, mine, None)
        if other is None:
            continue
        try:
            # Some of them print as they go.
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
                theirs = measured(other, calibration, test)
        except Exception as error:  # a peer that cannot do it should not hide the others
            print(f"    {peer}: {type(error).__name__}: {error}")
            continue
        print_line(f"  {peer}", theirs, mine)


def print_line(name: str, figures: tuple[float, ...], mine: tuple[float, ...] | None) -> None:
    """Print the times; on the line of a peer also ours as a share of them."""
    ratios = ["", ""] if mine is None else [f"{mine[place] / figures[place]:.2f}" for place in (0, 1)]
    print(
        f"  {name:52s} {figures[0]:9.4f} {ratios[0]:>6s} {figures[1]:9.4f} {ratios[1]:>6s} {figures[2]:9.5f}",
        flush=True,
    )


def main() -> None:
    found = []
    for name in ("numpy", "scipy", "scikit-learn", "betacal", "netcal", "venn-abers"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    print(f"calibrant {calibrant.__version__}, {', '.join(found)}; {ARGUMENTS.threads} thread(s)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers; ours are for users
        for size in ARGUMENTS.sizes:
            compare(*map(int, size.split("x")))


if __name__ == "__main__":
    main()
