"""The recommendation: calibrate or keep, with the gain and the side effects."""

from calibrant.comparison import UNCALIBRATED, Comparison, MethodResult
from calibrant.intervals import Interval
from calibrant.presentation.sentences import class_named, counted, interval_in_points, p_text
from calibrant.presentation.values import Range, percent, significant
from calibrant.report.contents import Estimate, MethodRow, Recommendation
from calibrant.report.evaluation_set import EvaluationSet, estimate_of, mean_estimate, plain_float
from calibrant.report.method_selection import MethodSelection, baseline_of, baseline_text, has_infinite_loss

__all__ = ["recommendation"]

SCORES = ("log_loss", "brier_score", "accuracy", "confidence_ece", "classwise_ece")

# Below this p-value tests reject clearly.
CLEAR = 0.001


def recommendation(
    rows: EvaluationSet, selection: MethodSelection, p_value: float, more_rows: str, level: float
) -> Recommendation:
    """Return the recommendation, given the adjusted ``p_value`` of the tests of calibration."""
    baseline = baseline_text(rows)
    methods = (
        ()
        if selection.comparison is None
        else _method_rows(selection.comparison, baseline, has_infinite_loss(rows))
    )
    how = _procedure(rows, selection)
    if selection.chosen is None or selection.gain is None or selection.after is None:
        return Recommendation(
            action="keep",
            method=UNCALIBRATED,
            headline=f"Keep the uncalibrated predictions: {selection.reason}.",
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
    gain = _gain(selection.gain, selection.chosen.name, selection.n_methods, baseline)
    loss = rows.data.log_loss(baseline_of(rows))
    share = gain.value / loss if gain.value is not None and loss > 0 else None
    after = selection.after
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
    name = selection.chosen.name
    if selection.is_recommended:
        headline = _headline_to_calibrate(rows, selection, gain, share)
        sentences = _side_effects(rows, after, accuracy, sharpness, changed)
        if selection.brier is not None and selection.brier.low > 0:
            sentences += (
                f"However, it raises the Brier score significantly, by {significant(selection.brier.estimate, 3)}.",
            )
    else:
        headline = _headline_to_keep(rows, selection, gain, share, p_value, level)
        sentences = ()
    return Recommendation(
        action="calibrate" if selection.is_recommended else "keep",
        method=name if selection.is_recommended else UNCALIBRATED,
        headline=headline,
        sentences=(
            _gain_sentence(selection, gain, level, baseline if has_infinite_loss(rows) else ""),
            *sentences,
            *_alternatives(selection),
        ),
        gain=gain,
        gain_share=plain_float(share),
        accuracy_change=accuracy if selection.is_recommended else None,
        sharpness_change=sharpness if selection.is_recommended else None,
        changed_decisions=changed if selection.is_recommended else None,
        more_rows=more_rows,
        how=how,
        methods=methods,
        baseline=baseline,
    )


def _headline_to_calibrate(
    rows: EvaluationSet, selection: MethodSelection, gain: Estimate, share: float | None
) -> str:
    assert selection.chosen is not None
    name = selection.chosen.name
    if has_infinite_loss(rows):
        after = significant(selection.chosen.scores["log_loss"], 3)
        headline = f"Calibrate with {name}: the log-loss is infinite before calibration and {after} after"
        if not selection.is_significant and selection.brier is not None:
            headline += f"; the Brier score falls by {significant(-selection.brier.estimate, 3)}"
        return f"{headline}."
    gain_clause = f"it lowers the log-loss on held-out rows by {significant(gain.value, 3)} nats per row"
    if share is not None:
        gain_clause += f" ({percent(share)})"
    if selection.makes_no_mistakes:
        return (
            f"Calibrate with {name}, but with caution: {gain_clause}. None of {counted(rows.n_rows, 'row')} is misclassified, so "
            "the data cannot limit its confidence."
        )
    return f"Calibrate with {name}: {gain_clause}."


def _headline_to_keep(
    rows: EvaluationSet,
    selection: MethodSelection,
    gain: Estimate,
    share: float | None,
    p_value: float,
    level: float,
) -> str:
    assert selection.chosen is not None
    name = selection.chosen.name
    if selection.is_significant and gain.value is not None:
        part = "" if share is None else f" ({percent(share, 2)})"
        return (
            f"Keep the uncalibrated predictions: {name} would lower the log-loss by only {significant(gain.value, 2)} nats per "
            f"row{part}."
        )
    if gain.low is None and gain.value is not None and gain.value > 0:
        mistakes = counted(int((~selection.rows.hits).sum()), "misclassified row")
        return (
            f"Keep the uncalibrated predictions: {mistakes} among {counted(selection.rows.n_rows, 'row')} do not show whether "
            f"{name} helps."
        )
    if p_value > 1 - level:
        return "Keep the uncalibrated predictions: no method gives a significant gain."
    rejection = f"the tests {'clearly ' if p_value < CLEAR else ''}reject calibration ({p_text(p_value)})"
    finding = (
        f"the gain of {name} is not significant"
        if gain.value is not None and gain.value > 0
        else "none of the methods tried gives a gain"
    )
    if selection.rows.n_rows < rows.n_rows:
        remedy = (
            f"Methods were fitted to {selection.rows.n_rows:,} of {rows.n_rows:,} rows; a fast method such as temperature can "
            "use more"
        )
    else:
        remedy = "More rows are needed to decide"
    return f"Keep the uncalibrated predictions for now: {rejection}, but {finding}. {remedy}."


def _gain(difference: Interval, method: str, n_methods: int, baseline: str) -> Estimate:
    """Return the gain from a difference of losses; positive if calibration helps."""
    notes = [_adjusted(n_methods), difference.note]
    return Estimate(
        name=f"gain of {method} in log-loss",
        value=plain_float(-difference.estimate),
        low=plain_float(-difference.high),
        high=plain_float(-difference.low),
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


def _gain_sentence(selection: MethodSelection, gain: Estimate, level: float, against: str) -> str:
    assert selection.chosen is not None
    value, low, high = gain.value, gain.low, gain.high
    verb = "lowers" if selection.is_recommended else "would lower"
    if value is not None and value < 0 and not selection.is_recommended:
        verb, value = "would raise", -value
        low, high = None if high is None else -high, None if low is None else -low
    interval = ""
    if low is not None and high is not None:
        adjusted = _adjusted(selection.n_methods)
        ends = Range(low, high, "significant").text()
        interval = f" ({100 * level:g} % interval{', ' if adjusted else ''}{adjusted}: {ends})"
    elif selection.gain is not None and selection.gain.note:
        interval = f" ({selection.gain.note})"
    chosen = selection.chosen.name
    opening = f"Only {chosen} was tried; it"
    if selection.n_methods > 1:
        opening = f"Of {selection.n_methods} methods, {chosen} is the first within one standard error of the best. It"
    baseline = f", relative to {against}" if against else ""
    return f"{opening} {verb} the log-loss by {significant(value)} nats per row{interval}{baseline}."


def _side_effects(
    rows: EvaluationSet, after: EvaluationSet, accuracy: Estimate, sharpness: Estimate, changed: float
) -> tuple[str, ...]:
    sentences = []
    two = rows.n_classes == 2
    if changed == 0 and two:
        sentences.append(
            "No probability crosses 50 %, so all predicted classes stay the same; decisions at other thresholds may change."
        )
    elif changed == 0:
        sentences.append("All predicted classes, and thus the accuracy, stay the same.")
    else:
        sentences.append(
            f"It changes {percent(changed, 2)} of the predicted classes{' (threshold 50 %)' if two else ''}, and the accuracy "
            f"from {percent(rows.mean(rows.hits), 2)} to {percent(rows.mean(after.hits), 2)}{_change_interval(accuracy)}."
        )
    if two:
        before, mean_after = (rows.mean(some.predictions.probabilities[:, 1]) for some in (rows, after))
        sentences.append(
            f"The mean probability of {class_named(rows.class_names[1])} changes from {percent(before)} to "
            f"{percent(mean_after)}; its observed frequency is {percent(rows.mean(rows.data.labels == 1))}."
        )
    else:
        sentences.append(
            f"The mean confidence changes from {percent(rows.mean(rows.confidence))} to {percent(rows.mean(after.confidence))}"
            f"{_change_interval(sharpness)}."
        )
    return tuple(sentences)


def _change_interval(change: Estimate) -> str:
    interval = interval_in_points(change.low, change.high)
    return f" (interval of the change: {interval})" if interval else ""


def _alternatives(selection: MethodSelection) -> tuple[str, ...]:
    sentences = []
    if selection.near_best:
        sentences.append(f"Also within one standard error of the best: {', '.join(selection.near_best)}.")
    if selection.comparison is not None:
        failed = [result.name for result in selection.comparison.results if result.failed]
        if failed:
            sentences.append(f"The fit failed for {', '.join(failed)}.")
    return tuple(sentences)


def _procedure(rows: EvaluationSet, selection: MethodSelection) -> str:
    if selection.comparison is None:
        return f"No method was tried: {selection.reason}."
    text = f"{selection.comparison.how}."
    if selection.rows.n_rows < rows.n_rows:
        rare = ""
        if selection.rows.weights is not None and rows.weights is None:
            rare = ", with rare classes oversampled and weighted back to their frequencies"
        text += (
            f" These rows are a random sample of {rows.n_rows}{rare}. The chosen method, fitted to the sample, calibrates the "
            "remaining rows, so before and after are compared on all of them."
        )
    return text


def _method_rows(comparison: Comparison, baseline: str, has_zeros: bool) -> tuple[MethodRow, ...]:
    return tuple(_method_row(result, comparison, baseline, has_zeros) for result in comparison.results)


def _method_row(result: MethodResult, comparison: Comparison, baseline: str, has_zeros: bool) -> MethodRow:
    def difference(name: str, title: str) -> Estimate | None:
        found = result.differences.get(name)
        if found is None:
            return None
        if has_zeros and name == "brier_score":  # finite despite the zeros
            return estimate_of(title, comparison.difference(UNCALIBRATED, result.name, "brier"))
        return estimate_of(title, found, f"after calibration minus {baseline}")

    traits = None if result.calibrator is None else result.calibrator.traits
    keeps = result.changed == 0 if traits is None else bool(traits.keeps_argmax)
    return MethodRow(
        name=result.name,
        **{name: plain_float(result.scores.get(name)) for name in SCORES},
        log_loss_difference=difference("log_loss", "difference of log-loss"),
        brier_difference=difference("brier_score", "difference of Brier score"),
        changed_decisions=plain_float(result.changed),
        keeps_argmax=keeps,
        seconds=plain_float(result.seconds),
        notes=result.notes,
        error=result.error,
    )
