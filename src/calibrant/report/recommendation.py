"""The recommendation: calibrate or keep, with the gain and the side effects."""

from calibrant.comparison import Comparison, MethodResult
from calibrant.comparison.comparison import UNCALIBRATED
from calibrant.intervals import Interval
from calibrant.report.baseline import baseline_text, has_infinite_loss, reference_of
from calibrant.report.contents import Estimate, MethodRow, Recommendation
from calibrant.report.figures import figure
from calibrant.report.means import mean_estimate
from calibrant.report.plain import class_named, estimate_of, number, percent, points
from calibrant.report.rows import Rows
from calibrant.report.trial import Trial
from calibrant.wording import counted, p_text

__all__ = ["recommendation"]

# Below this p-value tests reject clearly.
CLEAR = 0.001


def recommendation(rows: Rows, trial: Trial, p_value: float, more_rows: str, level: float) -> Recommendation:
    """Return the recommendation, given the adjusted ``p_value`` of the tests of calibration."""
    baseline = baseline_text(rows)
    methods = (
        () if trial.comparison is None else _method_rows(trial.comparison, baseline, has_infinite_loss(rows))
    )
    how = _how(rows, trial)
    if trial.chosen is None or trial.gain is None or trial.after is None:
        return Recommendation(
            action="keep",
            method=UNCALIBRATED,
            headline=f"Keep the probabilities as they are: {trial.why_not}.",
            sentences=(),
            gain=None,
            gain_share=None,
            accuracy_change=None,
            sharpness_change=None,
            changed_decisions=None,
            more_rows=more_rows,
            how=how,
            methods=methods,
            baseline=baseline,
        )
    gain = _gain(trial.gain, trial.chosen.name, trial.n_methods, baseline)
    loss = rows.data.log_loss(reference_of(rows))
    share = gain.value / loss if gain.value is not None and loss > 0 else None
    after = trial.after
    accuracy = mean_estimate(
        "change of accuracy",
        after.hits.astype(float) - rows.hits,
        rows,
        level,
        "accuracy, after minus before calibration",
        higher_is_better=True,
    )
    sharpness = mean_estimate(
        "change of sharpness",
        after.confidence - rows.confidence,
        rows,
        level,
        "mean confidence in the predicted class, after minus before calibration",
        higher_is_better=True,
    )
    changed = rows.mean(after.predictions.predicted != rows.predictions.predicted)
    name = trial.chosen.name
    if trial.helps:
        headline = _to_calibrate(rows, trial, gain, share)
        sentences = _costs(rows, after, accuracy, sharpness, changed)
        if trial.brier is not None and trial.brier.low > 0:
            sentences += (
                f"However, it raises the Brier score significantly, by {figure(trial.brier.estimate, digits=3)}.",
            )
    else:
        headline = _to_keep(rows, trial, gain, share, p_value, level)
        sentences = ()
    return Recommendation(
        action="calibrate" if trial.helps else "keep",
        method=name if trial.helps else UNCALIBRATED,
        headline=headline,
        sentences=(
            _gain_sentence(trial, gain, level, baseline if has_infinite_loss(rows) else ""),
            *sentences,
            *_alternatives(trial),
        ),
        gain=gain,
        gain_share=number(share),
        accuracy_change=accuracy if trial.helps else None,
        sharpness_change=sharpness if trial.helps else None,
        changed_decisions=changed if trial.helps else None,
        more_rows=more_rows,
        how=how,
        methods=methods,
        baseline=baseline,
    )


def _to_calibrate(rows: Rows, trial: Trial, gain: Estimate, share: float | None) -> str:
    assert trial.chosen is not None
    name = trial.chosen.name
    if has_infinite_loss(rows):
        after = figure(trial.chosen.scores["log_loss"], digits=3)
        said = f"Calibrate with {name}: the log-loss is infinite before calibration and {after} after"
        if not trial.is_significant and trial.brier is not None:
            said += f"; the Brier score falls by {figure(-trial.brier.estimate, digits=3)}"
        return f"{said}."
    gained = f"it lowers the log-loss on held-out rows by {figure(gain.value, digits=3)} nats per row"
    if share is not None:
        gained += f" ({percent(share)})"
    if trial.makes_no_mistakes:
        return (
            f"Calibrate with {name}, but with caution: {gained}, but none of {counted(rows.n_rows, 'row')} is misclassified, so "
            "the data cannot limit its confidence."
        )
    return f"Calibrate with {name}: {gained}."


def _to_keep(
    rows: Rows, trial: Trial, gain: Estimate, share: float | None, p_value: float, level: float
) -> str:
    assert trial.chosen is not None
    name = trial.chosen.name
    if trial.is_significant and gain.value is not None:
        part = "" if share is None else f" ({percent(share, 2)})"
        return (
            f"Keep the probabilities as they are: {name} would lower the log-loss, but only by "
            f"{figure(gain.value, digits=2)} nats per row{part}."
        )
    if p_value > 1 - level:
        return "Keep the probabilities as they are: no method gives a significant gain."
    objection = f"the tests {'clearly ' if p_value < CLEAR else ''}reject calibration ({p_text(p_value)})"
    brought = (
        f"the gain of {name} may be noise"
        if gain.value is not None and gain.value > 0
        else "none of the methods tried gives a gain"
    )
    if trial.rows.n_rows < rows.n_rows:
        remedy = (
            f"methods were fitted to {trial.rows.n_rows:,} of {rows.n_rows:,} rows, and a fast method such as temperature can "
            "use more"
        )
    else:
        remedy = "more rows are needed to decide"
    return f"Keep the probabilities as they are for now: {objection}, but {brought}; {remedy}."


def _gain(difference: Interval, method: str, n_methods: int, baseline: str) -> Estimate:
    """Return the gain from a difference of losses; positive if calibration helps."""
    notes = [_adjusted(n_methods), difference.note]
    return Estimate(
        name=f"gain of {method} in log-loss",
        value=number(-difference.estimate),
        low=number(-difference.high),
        high=number(-difference.low),
        level=difference.level,
        definition=(
            f"log-loss of {baseline} minus log-loss after calibration, in nats per row; "
            f"{difference.method} at the level {100 * difference.level:.4g} %, so that it is valid for all "
            f"{n_methods} methods simultaneously and not biased by the choice among them"
        ),
        higher_is_better=True,
        note="; ".join(note for note in notes if note) or None,
    )


def _adjusted(n_methods: int) -> str:
    return f"adjusted for the choice among {n_methods} methods" if n_methods > 1 else ""


def _gain_sentence(trial: Trial, gain: Estimate, level: float, against: str) -> str:
    assert trial.chosen is not None
    adjusted = _adjusted(trial.n_methods)
    ends = (
        ""
        if gain.low is None or gain.high is None
        else f" ({100 * level:g} % interval{', ' if adjusted else ''}{adjusted}: {figure(gain.low)} to {figure(gain.high)})"
    )
    compared_methods = f"{trial.n_methods} methods were" if trial.n_methods > 1 else "One method was"
    gains = gain.value is None or gain.value >= 0
    verb = "gains" if trial.helps else f"would {'gain' if gains else 'lose'}"
    size = figure(None if gain.value is None else abs(gain.value) if not trial.helps else gain.value)
    best = "" if trial.n_methods == 1 else " is the first within one standard error of the best; it"
    compared = f", compared with {against}" if against else ""
    return (
        f"{compared_methods} compared. {trial.chosen.name}{best} {verb} {size} nats per row{ends}{compared}."
    )


def _costs(
    rows: Rows, after: Rows, accuracy: Estimate, sharpness: Estimate, changed: float
) -> tuple[str, ...]:
    said = []
    two = rows.n_classes == 2
    if changed == 0 and two:
        said.append(
            "No probability crosses 50 %, so all predicted classes stay the same; decisions at other thresholds may change."
        )
    elif changed == 0:
        said.append("It changes no decisions: all predicted classes, and thus the accuracy, stay the same.")
    else:
        said.append(
            f"It changes {percent(changed, 2)} of the predicted classes{' (threshold 50 %)' if two else ''}; accuracy goes from "
            f"{percent(rows.mean(rows.hits), 2)} to {percent(rows.mean(after.hits), 2)}{_ends(accuracy)}."
        )
    if two:
        before, later = (rows.mean(some.predictions.probabilities[:, 1]) for some in (rows, after))
        said.append(
            f"The mean probability of {class_named(rows.class_names[1])} goes from {percent(before)} to {percent(later)}; its "
            f"observed frequency is {percent(rows.mean(rows.data.labels == 1))}."
        )
    else:
        said.append(
            f"Mean confidence goes from {percent(rows.mean(rows.confidence))} to {percent(rows.mean(after.confidence))}"
            f"{_ends(sharpness)}."
        )
    return tuple(said)


def _ends(change: Estimate) -> str:
    if change.low is None or change.high is None:
        return ""
    sign_low, sign_high = ("-" if end < 0 else "+" for end in (change.low, change.high))
    return f" (change {sign_low}{points(change.low).split()[0]} to {sign_high}{points(change.high)})"


def _alternatives(trial: Trial) -> tuple[str, ...]:
    said = []
    if trial.near:
        said.append(f"Also within one standard error of the best: {', '.join(trial.near)}.")
    if trial.comparison is not None:
        failed = [result.name for result in trial.comparison.results if result.failed]
        if failed:
            said.append(f"Could not be fitted to these rows: {', '.join(failed)}.")
    return tuple(said)


def _how(rows: Rows, trial: Trial) -> str:
    if trial.comparison is None:
        return f"No method was tried: {trial.why_not}."
    said = f"{trial.comparison.how}."
    if trial.rows.n_rows < rows.n_rows:
        rare = ""
        if trial.rows.weights is not None and rows.weights is None:
            rare = ", with rare classes oversampled and weighted back to their frequencies"
        said += (
            f" These rows are a random sample of {rows.n_rows}{rare}. The chosen method, fitted to the sample, calibrates the "
            "remaining rows, so before and after are compared on all of them."
        )
    return said


def _method_rows(comparison: Comparison, baseline: str, refuted: bool) -> tuple[MethodRow, ...]:
    return tuple(_method_row(result, comparison, baseline, refuted) for result in comparison.results)


def _method_row(result: MethodResult, comparison: Comparison, baseline: str, refuted: bool) -> MethodRow:
    def score(name: str) -> float | None:
        return number(result.scores.get(name))

    def difference(name: str, title: str) -> Estimate | None:
        found = result.differences.get(name)
        if found is None:
            return None
        if refuted and name == "brier_score":  # finite despite the zeros
            return estimate_of(title, comparison.difference(UNCALIBRATED, result.name, "brier"))
        return estimate_of(title, found, f"after calibration minus {baseline}")

    traits = None if result.calibrator is None else result.calibrator.traits
    keeps = result.changed == 0 if traits is None else bool(traits.keeps_argmax)
    return MethodRow(
        name=result.name,
        log_loss=score("log_loss"),
        brier_score=score("brier_score"),
        accuracy=score("accuracy"),
        confidence_ece=score("confidence_ece"),
        classwise_ece=score("classwise_ece"),
        log_loss_difference=difference("log_loss", "difference of log-loss"),
        brier_difference=difference("brier_score", "difference of Brier score"),
        changed_decisions=number(result.changed),
        keeps_argmax=keeps,
        seconds=number(result.seconds),
        notes=result.notes,
        error=result.error,
    )
