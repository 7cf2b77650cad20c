"""Look for broken promises of the calibrators at random: few rows, weights, ties, extreme scores, other orders.

Every trial is a method, a promise and a seed, from which the rows are drawn. A promise that does not hold is written to a file
of JSON lines, one trial each, with what was seen. All rows that are drawn are valid, so a fit that is refused is written too.

``python benchmarks/explore.py --minutes 10`` explores with new seeds and appends to ``exploration.jsonl``;
``python benchmarks/explore.py --replay exploration.jsonl`` runs the trials of a file again; ``--methods`` and ``--promises``
choose some; ``--seed`` and ``--trials`` make it repeatable.
"""

import argparse
import json
import secrets
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibrant import Predictions, registry
from calibrant.errors import CalibrationWarning
from calibrant.space import Space

# Two fits of one objective, each within 1e-8 nats of the optimum, of as few as ten rows.
REFITTED = 1e-3

DIFFER = "probabilities differ"
REFUSED = "refused"
BROKEN = "broken"
HOPELESS = "hopeless rows"
OPTIMA = "several optima"
NOT_COUNTED = (HOPELESS, OPTIMA)

# Logits in which a true class has a probability below exp(-745), which no float holds: a row alone decides the loss of a
# search, and which parameters are best depends on rounding (docs/robustness.md, "Known exceptions").
LEAST_LOG_PROBABILITY = -745.0
SEARCHES = ("auto", "dirichlet", "matrix")

# Their bound has several optima, and rounding may lead to another one where rows are few.
SEVERAL_OPTIMA = ("gp", "gp-monotone")


class Problem(NamedTuple):
    """Rows of a trial."""

    X: Any
    scores: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None

    @property
    def is_logits(self) -> bool:
        return isinstance(self.X, Predictions)

    @property
    def is_hopeless(self) -> bool:
        """Whether some true class is as good as impossible."""
        own = self.scores[np.arange(len(self.y)), self.y]
        with np.errstate(over="ignore"):
            return self.is_logits and bool((own - self.scores.max(axis=1)).min() < LEAST_LOG_PROBABILITY)

    def wrapped(self, scores: np.ndarray) -> Any:
        return Predictions.from_logits(scores) if self.is_logits else scores


def drawn(name: str, generator: np.random.Generator) -> Problem:
    """Draw 10 to 80 rows of two to five classes: usual, rounded, one-hot, tied or extreme scores."""
    n_classes = 2 if registry.make(name).traits.binary_only else int(generator.integers(2, 6))
    n_rows = int(generator.integers(max(10, 2 * n_classes), 81))
    logits = generator.choice([0.5, 2.0, 5.0]) * generator.normal(size=(n_rows, n_classes))
    shape = generator.choice(["usual", "usual", "rounded", "one-hot", "equal rows", "huge", "masked"])
    if shape == "rounded":
        logits = np.round(logits)
    if shape == "equal rows":
        logits = logits[generator.integers(0, max(2, n_rows // 4), n_rows)]
    y = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    if generator.random() < 0.8:
        y[:n_classes] = range(n_classes)
    elif len(np.unique(y)) < 2:
        y[0] = 1 - min(int(y[1]), 1)
    weights = generator.choice([1.0, 2.0, 3.0], n_rows) if generator.random() < 0.4 else None
    if shape in ("huge", "masked"):
        logits[:: int(generator.integers(2, 6))] *= 10.0 ** generator.integers(1, 30)
        if shape == "masked":
            logits[1::3, 0] = np.finfo(np.float64).min
        return Problem(Predictions.from_logits(logits), logits, y, weights)
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = exponentials / exponentials.sum(axis=1, keepdims=True)
    if shape == "one-hot":
        some = generator.random(n_rows) < generator.choice([0.3, 1.0])
        p[some] = np.eye(n_classes)[p[some].argmax(axis=1)]
    return Problem(p, p, y, weights)


def made(name: str) -> Any:
    calibrator = registry.make(name)
    return calibrator.set_params(
        **{key: 0 for key in calibrator.get_params() if key.endswith("random_state")}
    )


def gives_probabilities(name: str, problem: Problem, _: np.random.Generator) -> str:
    p = made(name).fit(problem.X, problem.y, problem.weights).predict_proba(problem.X)
    if not np.isfinite(p).all() or (p < 0).any():
        return "not finite, or negative"
    off = float(np.abs(p.sum(axis=1, dtype=np.float64) - 1).max())
    return "" if off < 1e-10 else f"rows sum to one only within {off:.2g}"


def difference(first: np.ndarray, second: np.ndarray) -> str:
    largest = float(np.abs(first - second).max())
    return "" if largest <= REFITTED else f"{DIFFER} by {largest:.4f}"


def counts_weights(name: str, problem: Problem, generator: np.random.Generator) -> str:
    twice = generator.random(len(problem.y)) < 0.4
    copies = np.concatenate([np.arange(len(problem.y)), np.flatnonzero(twice)])
    weighted = made(name).fit(problem.X, problem.y, np.where(twice, 2.0, 1.0))
    repeated = made(name).fit(problem.wrapped(problem.scores[copies]), problem.y[copies])
    return difference(weighted.predict_proba(problem.X), repeated.predict_proba(problem.X))


def ignores_the_order_of_rows(name: str, problem: Problem, generator: np.random.Generator) -> str:
    order = generator.permutation(len(problem.y))
    weights = None if problem.weights is None else problem.weights[order]
    plain = made(name).fit(problem.X, problem.y, problem.weights)
    shuffled = made(name).fit(problem.wrapped(problem.scores[order]), problem.y[order], weights)
    return difference(plain.predict_proba(problem.X), shuffled.predict_proba(problem.X))


def ignores_the_order_of_classes(name: str, problem: Problem, generator: np.random.Generator) -> str:
    two_largest = np.sort(problem.scores, axis=1)[:, -2:]
    if problem.scores.shape[1] == 2 or np.isclose(two_largest[:, 0], two_largest[:, 1]).any():
        return ""  # of two classes the second is the event, and of equal scores the first is predicted
    order = generator.permutation(problem.scores.shape[1])
    permuted = problem.wrapped(problem.scores[:, order])
    plain = made(name).fit(problem.X, problem.y, problem.weights).predict_proba(problem.X)
    other = made(name).fit(permuted, np.argsort(order)[problem.y], problem.weights).predict_proba(permuted)
    return difference(plain[:, order], other)


def is_not_above_the_identity(name: str, problem: Problem, _: np.random.Generator) -> str:
    calibrator = made(name)
    brier = calibrator.get_params().get("loss", "log") == "brier"
    identity = made("uncalibrated").fit(problem.X, problem.y, problem.weights)

    def losses(fitted: Any) -> tuple[float, float]:
        """Return the mean loss as it is, and with zeros raised to the floor."""
        calibrated, own = fitted.transform(problem.X), (np.arange(len(problem.y)), problem.y)
        means = []
        for read in (calibrated, calibrated.without_zeros()):
            if brier:
                p = read.probabilities
                of_rows = (p**2).sum(axis=1) - 2 * p[own] + 1
            else:
                with np.errstate(divide="ignore", over="ignore"):
                    logits = read.space is Space.LOGITS
                    of_rows = -(read.log_probabilities if logits else np.log(read.probabilities))[own]
            with np.errstate(over="ignore"):
                means.append(float(np.average(of_rows, weights=problem.weights)))
        return means[0], means[1]

    of_identity, of_method = losses(identity), losses(calibrator.fit(problem.X, problem.y, problem.weights))
    # Zeros count as the floor, as the trait says. It hides how far off huge logits are: there only if one loss is infinite.
    reading = 0 if problem.is_logits and np.isfinite([of_identity[0], of_method[0]]).all() else 1
    before, after = of_identity[reading], of_method[reading]
    return "" if after <= before + 1e-6 * (1 + before) else f"loss {after:.6g}, identity {before:.6g}"


PROMISES: dict[str, Callable[[str, Problem, np.random.Generator], str]] = {
    "gives probabilities": gives_probabilities,
    "a weight of two is the row twice": counts_weights,
    "the order of rows does not matter": ignores_the_order_of_rows,
    "the order of classes does not matter": ignores_the_order_of_classes,
    "loss not above the identity": is_not_above_the_identity,
}


def promises_of(name: str) -> Iterator[str]:
    """Yield the promises that a method makes; random ones have a seed, which draws the same for any order."""
    calibrator = registry.make(name)
    yield "gives probabilities"
    yield "a weight of two is the row twice"
    yield "the order of rows does not matter"
    if calibrator.traits.commutes_with_permutations:
        yield "the order of classes does not matter"
    if calibrator.traits.contains_identity:
        yield "loss not above the identity"


def found(name: str, promise: str, seed: int) -> str:
    """Return what is wrong in one trial; empty if nothing is."""
    generator = np.random.default_rng(seed)
    problem = drawn(name, generator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", CalibrationWarning)
        try:
            wrong = PROMISES[promise](name, problem, generator)
            if not wrong.startswith(DIFFER):
                return wrong
            if name.startswith(SEARCHES) and problem.is_hopeless:
                return f"{HOPELESS}: {wrong}"
            return f"{OPTIMA}: {wrong}" if name in SEVERAL_OPTIMA else wrong
        except Exception as error:
            if type(error).__module__ == "calibrant.errors":
                return f"{REFUSED}: {error}"[:300]
            return repr(error)[:200]


def explored(
    names: list[str], promises: list[str], seed: int, minutes: float, n_trials: int | None, path: Path
) -> int:
    """Try at random until time or trials are over; append what is found to a file and return how many trials that are.

    Differences on hopeless rows and between optima are written, but not counted.
    """
    generator = np.random.default_rng(seed)
    end, done = time.monotonic() + 60 * minutes, 0
    kinds: Counter[str] = Counter()
    while time.monotonic() < end and done != n_trials:
        name = str(generator.choice(names))
        promise = str(generator.choice(list(promises_of(name))))
        of_trial = int(generator.integers(2**32))
        if promise not in promises:
            continue
        done += 1
        wrong = found(name, promise, of_trial)
        if wrong:
            kinds[kind_of(wrong)] += 1
            trial = {"method": name, "promise": promise, "seed": of_trial, "found": wrong}
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(trial) + "\n")
            print(f"{name}, {promise}, seed {of_trial}: {wrong}", flush=True)
    print(
        f"seed {seed}: {done} trials, {kinds[BROKEN]} broken promises, {kinds[REFUSED]} refusals of valid rows, "
        f"{kinds[HOPELESS]} differences on hopeless rows, {kinds[OPTIMA]} between optima"
    )
    return kinds[BROKEN] + kinds[REFUSED]


def kind_of(wrong: str) -> str:
    """Return what was found: a broken promise, a refusal, or a difference that no search can settle."""
    return next((kind for kind in (REFUSED, *NOT_COUNTED) if wrong.startswith(kind)), BROKEN)


def replayed(path: Path) -> int:
    """Run the trials of a file again and return how many are still broken."""
    n_broken = 0
    for line in path.read_text(encoding="utf-8").splitlines():
        trial = json.loads(line)
        wrong = found(trial["method"], trial["promise"], trial["seed"])
        n_broken += bool(wrong) and kind_of(wrong) not in NOT_COUNTED
        print(f"{trial['method']}, {trial['promise']}, seed {trial['seed']}: {wrong or 'holds'}", flush=True)
    return n_broken


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--methods", default="", help="registry names with commas between them; all by default"
    )
    parser.add_argument(
        "--promises", default="", help="words of promises with commas between them; all by default"
    )
    parser.add_argument("--seed", type=int, help="a new one by default")
    parser.add_argument(
        "--trials", type=int, help="number of trials; as many as the minutes allow by default"
    )
    parser.add_argument("--file", type=Path, default=Path("exploration.jsonl"))
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    if options.replay is not None:
        return int(replayed(options.replay) > 0)
    names = options.methods.split(",") if options.methods else registry.calibrators()
    words = options.promises.split(",")
    promises = [promise for promise in PROMISES if any(word in promise for word in words)]
    seed = secrets.randbits(64) if options.seed is None else options.seed
    return int(explored(names, promises, seed, options.minutes, options.trials, options.file) > 0)


if __name__ == "__main__":
    sys.exit(main())
