"""Made-up assessments of any number of classes, plausible enough to look at, for the tests of the page."""

import json
from dataclasses import replace

import numpy as np

from calibrant import TemperatureScaling
from calibrant.export import exportable
from calibrant.export.json_file import json_of
from calibrant.report.assessment import Assessment
from calibrant.report.contents import (
    BinSensitivityNumbers,
    ClassRow,
    CumulativeNumbers,
    Curve,
    DataSummary,
    DecompositionRow,
    Estimate,
    Example,
    LearningNumbers,
    MethodRow,
    Pitfall,
    Recommendation,
    Repeatability,
    ScoreRow,
    TestRow,
    Verdict,
)

HOSTILE = (
    "</script><script>window.stolen = 1</script>",
    '"><img src=x onerror="window.stolen = 2">',
    "a very long class name that " + "goes on and on without end " * 8,
    "nobreaknobreaknobreaknobreaknobreaknobreaknobreaknobreaknobreaknobreaknobreak",
    "שלום עולם",
    "猫",
    "{{ 7 * 7 }}",
    "&amp; 'quoted' \"twice\"",
    "",
    "–1",
)

METHODS = ("uncalibrated", "dirichlet", "temperature", "beta", "isotonic")


def example(names):
    """Return temperature scaling of some classes; None where there are too many for a form."""
    if len(names) > 20:
        return None
    scores = np.full(len(names), round(0.4 / (len(names) - 1), 3))
    scores[0] = 1 - scores[1:].sum()
    calibrator = TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
    calibrator.classes_ = np.arange(len(names))
    content = replace(exportable(calibrator), classes=tuple(names), columns=tuple(names))
    calibrated = content.graph(scores[np.newaxis])[0]
    return Example(
        "dirichlet",
        "probabilities",
        json.dumps(json_of(content)),
        tuple(scores.tolist()),
        tuple(calibrated.tolist()),
    )


def sample_assessment(n_classes=10, *, names=None, status="miscalibrated", infinite=False, seed=0):
    """Return an assessment with every part filled; the numbers fit together only roughly."""
    rng = np.random.default_rng(seed)
    names = tuple(
        names or (("no", "yes") if n_classes == 2 else [f"class {index:03d}" for index in range(n_classes)])
    )
    n_rows = 1797 if n_classes < 100 else 50_000
    shown = names[:24] if n_classes > 2 else names[1:]
    event = f"class {names[1]!r}" if n_classes == 2 else "predicted class"
    curves = [
        curve(rng, method, event, None, n_rows, 0.0 if index else 1.0) for index, method in enumerate(METHODS)
    ]
    if n_classes > 2:
        curves += [
            curve(rng, method, f"class {name!r}", name, n_rows, float(method == "uncalibrated"))
            for name in shown
            for method in METHODS[:2]
        ]
    return Assessment(
        title="Digits, random forest",
        data=data_summary(names, n_rows),
        verdict=verdict(status, names),
        recommendation=recommendation(status, infinite),
        scores=score_rows(infinite),
        decompositions=decompositions(infinite),
        errors=error_rows(),
        slopes=(
            Estimate(
                "calibration in the large",
                0.062,
                0.05,
                0.074,
                definition="Mean probability minus share of the event.",
            ),
            Estimate(
                "calibration slope",
                0.58,
                0.51,
                0.66,
                definition="Of the outcome on the log-odds; 1 is ideal.",
            ),
            Estimate("calibration intercept", -0.31, -0.4, -0.22, definition="At slope 1; 0 is ideal."),
        ),
        tests=(
            TestRow(
                "cumulative", event, 8.31, 1e-12, 3e-12, "The running sum strays further than chance allows."
            ),
            TestRow(
                "spiegelhalter", event, 5.2, 2e-7, 4e-7, "The Brier score is larger than the scores promise."
            ),
            TestRow("kernel", "all classes", 0.0031, 0.0712, 0.0712, "No objection from the kernel test."),
        ),
        classes=tuple(class_row(rng, name, n_rows / n_classes, rank) for rank, name in enumerate(names)),
        curves=tuple(curves),
        cumulative=tuple(
            cumulative(rng, method, event, drift)
            for method, drift in zip(METHODS, (-0.05, 0.002), strict=False)
        ),
        bin_sensitivity=tuple(
            bin_sensitivity(method, height) for method, height in zip(METHODS, (0.07, 0.012), strict=False)
        ),
        example=example(names),
        learning=LearningNumbers(
            "dirichlet",
            (100, 200, 400, 800, 1200, 1437),
            (0.46, 0.41, 0.375, 0.355, 0.349, 0.347),
            (0.42, 0.385, 0.357, 0.341, 0.336, 0.335),
            (0.5, 0.435, 0.393, 0.369, 0.362, 0.359),
            0.412,
            "Twice as many rows would lower the log-loss by about 0.004.",
        ),
        pitfalls=(
            Pitfall(
                "warning",
                "27 rows gave their true class a probability of exactly zero: the log-loss is infinite.",
            ),
            Pitfall(
                "warning",
                "The confidence error was measured on 15 bins of equal width; it is biased upward by about 0.02.",
            ),
            Pitfall("note", "Dirichlet calibration changes the predicted class of 2.1 % of the rows."),
        ),
        repeatability=Repeatability(
            {"cv": "5", "level": "0.95", "random_state": "0", "methods": ", ".join(METHODS)},
            {"calibrant": "0.1.0", "numpy": "2.1.0", "python": "3.12.3"},
            {"comparison": 12.3, "curves": 0.42},
        ),
    )


def curve(rng, method, event, label, n_rows, excess):
    """Scores beta-distributed, outcomes drawn from a probability that is less extreme by `excess`."""
    score = rng.beta(5, 1.5, n_rows) if label is None else rng.beta(0.4, 3, n_rows)
    chance = 1 / (1 + np.exp(-np.log(score / (1 - score + 1e-12) + 1e-12) * (1 - 0.45 * excess)))
    outcome = rng.random(n_rows) < chance
    edges = np.linspace(0, 1, 16)
    place = np.minimum((score * 15).astype(int), 14)
    count = np.bincount(place, minlength=15)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_score = np.bincount(place, score, 15) / count
        mean_outcome = np.bincount(place, outcome, 15) / count
        half = 1.96 * np.sqrt(np.maximum(mean_outcome * (1 - mean_outcome), 0.02) / count)
        expected = 1.96 * np.sqrt(mean_score * (1 - mean_score) / count)
    grid = np.linspace(score.min(), score.max(), 60)
    centre = 1 / (1 + np.exp(-np.log(grid / (1 - grid + 1e-9) + 1e-9) * (1 - 0.45 * excess)))
    return Curve(
        method=method,
        event=event,
        label=label,
        n_rows=n_rows,
        definition="15 bins of equal width, Clopper-Pearson intervals of 95 %.",
        edges=plain(edges),
        count=tuple(int(value) for value in count),
        mean_score=plain(mean_score),
        mean_outcome=plain(mean_outcome),
        low=plain(np.clip(mean_outcome - half, 0, 1)),
        high=plain(np.clip(mean_outcome + half, 0, 1)),
        consistency_low=plain(np.clip(mean_score - expected, 0, 1)),
        consistency_high=plain(np.clip(mean_score + expected, 0, 1)),
        small=tuple(bool(value) for value in count < 10),
        isotonic_score=plain(np.repeat(grid, 2)[1:]),
        isotonic_outcome=plain(np.repeat(centre, 2)[:-1]),
        band_score=plain(grid),
        band_low=plain(np.clip(centre - 0.05, 0, 1)),
        band_high=plain(np.clip(centre + 0.05, 0, 1)),
        histogram_edges=plain(np.linspace(0, 1, 51)),
        histogram_count=tuple(int(value) for value in np.histogram(score, 50, (0, 1))[0]),
    )


def plain(values):
    return tuple(None if np.isnan(value) else float(value) for value in values)


def data_summary(names, n_rows):
    return DataSummary(
        n_rows=n_rows,
        n_classes=len(names),
        space="probabilities",
        float_type="float64",
        classes=names,
        class_counts=tuple(float(n_rows // len(names) + index % 7) for index in range(len(names))),
        absent_classes=(),
        effective_rows=float(n_rows),
        weighted=False,
        n_groups=None,
        n_zeros=5210,
        n_refuted=27,
        n_distinct=412,
        largest_tie=0.083,
        mean_confidence=0.943,
        accuracy=0.881,
        split="All rows given; methods were compared by 5-fold cross-validation.",
    )


def verdict(status, names):
    headline = {
        "miscalibrated": "The probabilities are not calibrated (p < 0.001): they are over-confident by 6.2 points on average.",
        "calibrated": "No test objects to these probabilities, and an error of 1.2 points would have been seen.",
        "unclear": "No test objects, but with 90 rows an error below 8 points cannot be seen.",
    }[status]
    return Verdict(
        status=status,
        headline=headline,
        sentences=(
            "The mean confidence is 94.3 %, the accuracy 88.1 %.",
            f"The worst classes are {names[0]!r} and {names[-1]!r}.",
            "Miscalibration below 1.2 points cannot be seen with so many rows.",
        ),
        direction="over-confident" if status == "miscalibrated" else "none",
        worst_classes=names[:2] if status == "miscalibrated" else (),
        p_value=1e-12 if status == "miscalibrated" else 0.41,
        smallest_detectable=0.012,
    )


def recommendation(status, infinite):
    rows = []
    for index, name in enumerate((*METHODS, "histogram")):
        change = (0.0, -0.065, -0.052, -0.048, 0.021, None)[index]
        rows.append(
            MethodRow(
                name=name,
                log_loss=None
                if change is None
                else float("inf")
                if infinite and not index
                else 0.412 + change,
                brier_score=None if change is None else 0.18 + change / 3,
                accuracy=None if change is None else 0.881 + index / 1000,
                confidence_ece=None if change is None else 0.062 + change / 2,
                classwise_ece=None if change is None else 0.021 + change / 8,
                log_loss_difference=difference("log_loss", change, 0.012) if change else None,
                brier_difference=difference("brier_score", change / 3, 0.009) if change else None,
                changed_decisions=None
                if change is None
                else 0.0
                if name in ("temperature", "uncalibrated")
                else 0.021,
                keeps_argmax=name in ("temperature", "uncalibrated"),
                seconds=None if change is None else 0.003 * 4**index,
                notes=("stopped at the edge of its range.",) if name == "beta" else (),
                error="a class has no rows in fold 3." if change is None else None,
            )
        )
    keep = status != "miscalibrated"
    return Recommendation(
        action="keep" if keep else "calibrate",
        method="uncalibrated" if keep else "dirichlet",
        headline="Leave them as they are."
        if keep
        else "Calibrate with 'dirichlet': it lowers the log-loss by 15.8 %.",
        sentences=("Temperature scaling is nearly as good and keeps every decision.",),
        gain=None if keep else Estimate("gain in log-loss", 0.065, 0.053, 0.077, higher_is_better=True),
        gain_share=None if keep else 0.158,
        accuracy_change=None if keep else Estimate("accuracy", 0.003, -0.004, 0.010, higher_is_better=True),
        sharpness_change=None if keep else Estimate("sharpness", -0.041, -0.046, -0.036),
        changed_decisions=None if keep else 0.021,
        more_rows="Twice as many calibration rows would lower the log-loss by about 0.004 more.",
        how="5-fold cross-validation on 1,797 rows, one standard error rule.",
        methods=tuple(rows),
    )


def difference(name, value, half):
    return Estimate(name, value, value - half, value + half, definition="Paired, method minus uncalibrated.")


def score(name, before, after, half, definition, higher=False):
    change = after - before if np.isfinite(before) else None
    return ScoreRow(
        Estimate(name, before, before - half, before + half, 0.95, definition, higher),
        Estimate(name, after, after - half, after + half, 0.95, definition, higher),
        None
        if change is None
        else Estimate(name, change, change - half / 2, change + half / 2, 0.95, definition, higher),
    )


def score_rows(infinite):
    return (
        score(
            "log_loss",
            float("inf") if infinite else 0.412,
            0.347,
            0.02,
            "Mean of −log of the true class's probability.",
        ),
        score("brier_score", 0.181, 0.166, 0.01, "Sum of squares over all classes."),
        score(
            "accuracy",
            0.881,
            0.884,
            0.015,
            "Share of rows whose largest probability is that of the true class.",
            True,
        ),
        score("roc_auc", 0.987, 0.989, 0.004, "Mean over classes, each against the rest.", True),
    )


def error_rows():
    lower = Estimate("lower bound of the L1 error", 0.048, 0.048, None, definition="One-sided limit at 95 %.")
    return (
        ScoreRow(lower, Estimate("lower bound of the L1 error", 0.0, 0.0, None), None),
        score("debiased_l2_ece", 0.071, 0.009, 0.008, "15 bins of equal mass, debiased."),
        score("smooth_ece", 0.059, 0.011, 0.007, "Kernel smoothing with its own bandwidth."),
        score("confidence_ece", 0.064, 0.019, 0.007, "15 bins of equal width, L1."),
    )


def decompositions(infinite):
    rows = []
    for loss, before, after, uncertainty in (
        ("log_loss", 0.412, 0.347, 2.302),
        ("brier_score", 0.181, 0.166, 0.9),
    ):
        for stage, value in (("uncalibrated", before), ("dirichlet", after)):
            part = 0.17 * value if stage == "uncalibrated" else 0.015 * value
            rows.append(
                DecompositionRow(
                    loss=loss,
                    stage=stage,
                    score=float("inf")
                    if infinite and (loss, stage) == ("log_loss", "uncalibrated")
                    else value,
                    miscalibration=float("inf")
                    if infinite and (loss, stage) == ("log_loss", "uncalibrated")
                    else part,
                    discrimination=uncertainty - (value - part),
                    uncertainty=uncertainty,
                    removable=Estimate("removable", 0.9 * part, 0.7 * part, 1.1 * part),
                    refinement=value - 0.9 * part,
                    definition="Isotonic recalibration of every class, cross-fitted in 5 folds.",
                )
            )
    return tuple(rows)


def class_row(rng, name, rows, rank):
    excess = 0.03 / (1 + rank)
    return ClassRow(
        label=name,
        n_rows=float(round(rows)),
        share=0.1,
        mean_probability=0.1 + excess,
        in_the_large=Estimate("in the large", excess, excess - 0.01, excess + 0.01),
        slope=Estimate("slope", 0.6 + 0.01 * (rank % 40), 0.5 + 0.01 * (rank % 40), 0.8)
        if rank % 9
        else None,
        ece=0.02 + excess,
        ece_noise=0.012,
        lower_bound=max(excess - 0.005, 0.0) if rank < 20 else None,
        p_value=min(1e-6 * 4.0**rank, 1.0) if rank < 20 else 1.0,
        adjusted_p_value=min(1e-5 * 4.0**rank, 1.0) if rank < 20 else 1.0,
        direction=("too high", "too extreme", "too low", "too timid", "none")[min(rank % 7, 4)],
        after_ece=0.013 + 0.002 * float(rng.random()),
    )


def cumulative(rng, method, event, drift):
    share = np.linspace(0, 1, 200)
    walk = np.cumsum(rng.normal(0, 0.0005, 200)) + drift * share**2
    p_value = 1e-9 if drift < 0 else 0.31
    spread = float(np.ptp(walk))
    return CumulativeNumbers(
        method, event, plain(share), plain(share**0.3), plain(walk), 0.006, spread, p_value
    )


def bin_sensitivity(method, height):
    n_bins = (5, 10, 15, 20, 30, 50, 100)
    noise = [0.004 * np.sqrt(bins) for bins in n_bins]
    return BinSensitivityNumbers(
        method,
        "confidence_ece",
        n_bins,
        tuple(height + 0.6 * value for value in noise),
        tuple(height + 0.5 * value for value in noise),
        tuple(height + 0.01 * np.sin(index) for index in range(7)),
        tuple(noise),
        tuple(1.5 * value for value in noise),
    )
