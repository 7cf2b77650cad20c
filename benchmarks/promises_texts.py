"""Texts of the page that :mod:`promises` writes: groups of claims, one table each, with a name for every column."""

# ruff: noqa: E501

GROUPS: dict[str, dict[str, str]] = {
    "Verdict": {
        "verdict: miscalibrated": "verdict: calibrated rows called miscalibrated",
    },
    "Verdict: calibrated despite an error": {
        "verdict: calibrated despite an error": "verdict: an error called calibrated",
    },
    "Headline": {"headline: detectable error": "headline: error of the stated size is found"},
    "Power of the verdict": {"verdict: power": "verdict: power"},
    "Intervals of means and errors": {
        "loss_difference": "`loss_difference`",
        "bootstrap": "`bootstrap`, Brier score",
        "paired_bootstrap": "`paired_bootstrap`, Brier score",
        "bootstrap of the squared debiased_ece": "`bootstrap`, squared `debiased_ece`",
        "report: gap of means": "report: gap of means",
        "jackknife, Brier score": "jackknife, Brier score",
        "jackknife, squared debiased_ece": "jackknife, squared `debiased_ece`",
        "bootstrap of confidence_ece": "`bootstrap`, `confidence_ece`",
        "bootstrap of confidence_ece, uncorrected": "the same, uncorrected",
        "jackknife, confidence_ece": "jackknife, `confidence_ece`",
    },
    "Intervals of frequencies and curves": {
        "decision_curve": "`decision_curve`",
        "reliability_curve, confidence": "`reliability_curve`, confidence",
        "reliability_curve, consistency": "`reliability_curve`, consistency",
        "calibration_slope_intercept: interval of the slope": "slope",
        "calibration_slope_intercept: interval of the intercept": "intercept",
        "calibration_belt: complete belt": "`calibration_belt`, complete",
        "subgroup_calibration: all intervals": "`subgroup_calibration`, all segments",
    },
    "Exact intervals of a proportion": {"clopper_pearson": "`clopper_pearson`"},
    "Tests in closed form": {
        "cumulative_test": "`cumulative_test`",
        "classwise_cumulative_tests, any class": "`classwise_cumulative_tests`, any class",
        "spiegelhalter_test": "`spiegelhalter_test`",
        "hosmer_lemeshow_test": "`hosmer_lemeshow_test`",
        "calibration_slope_intercept": "`calibration_slope_intercept`",
        "calibration_belt": "`calibration_belt`",
        "calibration_error_lower_bound above zero": "`calibration_error_lower_bound` above zero",
    },
    "Tests by simulation": {
        "consistency_test, confidence_ece": "`consistency_test`, `confidence_ece`",
        "kernel_test, resampling": "`kernel_test`, resampling",
        "kernel_test, wild": "`kernel_test`, wild",
        "kernel_test, block": "`kernel_test`, block",
        "subgroup_calibration, any segment": "`subgroup_calibration`, any segment",
    },
    "Test of discrete scores": {"discrete_score_test": "`discrete_score_test`"},
    "Selection thresholds": {
        "selection_threshold, clopper-pearson": "`selection_threshold`, risk exceeded",
        "selection_threshold, conformal": "`selection_threshold`, conformal",
    },
    "Monitors of a stream": {
        "CalibrationMonitor, any-time": "`CalibrationMonitor`, any-time",
        "CalibrationMonitor, change": "`CalibrationMonitor`, change",
    },
    "Label shift": {
        "LabelShift: class prior": "`LabelShift`, class prior",
        "LabelShift: other changes": "`LabelShift`, other changes",
    },
    "Gains": {
        "AutoCalibration: gain": "`AutoCalibration`, gain",
        "AutoCalibration: significantly better": "`AutoCalibration`, significantly better",
        "report: adjusted gain": "report: gain of the recommended method",
    },
    "Calibrated probabilities": {"WithIntervals": "`WithIntervals`"},
    "Calibrated probabilities: temperature scaling": {
        "WithIntervals of temperature": "`WithIntervals`, temperature"
    },
    "Calibrated probabilities without a claim": {"WithIntervals, method named": "method named"},
    "Rankings": {
        "friedman_test, chi-square": "`friedman_test`, chi-square",
        "friedman_test, F": "`friedman_test`, F",
        "nemenyi_test, any pair": "`nemenyi_test`, any pair",
        "bonferroni_dunn_test, any method": "`bonferroni_dunn_test`, any method",
        "wilcoxon_holm, any pair": "`wilcoxon_holm`, any pair",
    },
    "Fresh scenarios": {
        "fresh: verdict": "fresh: verdict",
        "fresh: loss_difference": "fresh: `loss_difference`",
        "fresh: bootstrap": "fresh: `bootstrap`",
        "fresh: gap of means": "fresh: gap of means",
        "fresh: cumulative_test": "fresh: `cumulative_test`",
        "fresh: spiegelhalter_test": "fresh: `spiegelhalter_test`",
        "fresh: calibration_slope_intercept": "fresh: `calibration_slope_intercept`",
        "fresh: WithIntervals of temperature": "fresh: `WithIntervals`, temperature",
        "fresh: selection_threshold": "fresh: `selection_threshold`",
    },
}

ABOUT = {
    "Verdict": "How often {func}`calibrant.assess` calls calibrated predictions miscalibrated.",
    "Verdict: calibrated despite an error": (
        "How often it calls predictions calibrated although they have an error. Errors of six and of eight points, swapped "
        "classes and logits that are 40 % too large should all be seen."
    ),
    "Headline": (
        "The headline says which error would have been found with a probability of 80 %. In each simulation the labels have\n"
        "an error of exactly the size that the report states. The share is how often the verdict finds it."
    ),
    "Power of the verdict": (
        "How often the verdict calls miscalibrated predictions miscalibrated, now and with the package as it was before\n"
        "unequal groups were allowed for (`--before`). At that time, calibrated rows with a group of 70 % were called\n"
        "miscalibrated in 46 % of the cases, so the power there is not comparable. Labels are the same in both columns."
    ),
    "Intervals of means and errors": (
        "{func}`calibrant.intervals.loss_difference` of the log-loss of two fixed predictions; {func}`calibrant.intervals.bootstrap`\n"
        "and {func}`calibrant.intervals.paired_bootstrap` with 199 resamples; jackknife intervals of one pass over a file\n"
        "({class}`calibrant.streaming.JackknifeSums`); the interval of mean probability minus frequency in a report. The plug-in\n"
        "ECE has no interval; uncorrected, it almost never contains zero, the true error."
    ),
    "Intervals of frequencies and curves": (
        "{func}`calibrant.intervals.decision_curve` at six thresholds, and five bins of a reliability curve, each by itself. Slope and\n"
        "intercept are intervals of {func}`calibrant.hypothesis_tests.calibration_slope_intercept`. The last two columns are\n"
        "simultaneous: the complete belt contains the diagonal, and all intervals of segments contain zero."
    ),
    "Exact intervals of a proportion": "{func}`calibrant.intervals.clopper_pearson`, which is conservative.",
    "Tests in closed form": (
        "Rejections of calibrated predictions. The lower bound of the calibration error is wrong if it is above zero."
    ),
    "Tests by simulation": (
        "Kernel tests use 39 resamples, the consistency test 99 and subgroups 199, each with its own seed."
    ),
    "Test of discrete scores": "The probability of the last class, rounded to tenths.",
    "Selection thresholds": (
        "{func}`calibrant.intervals.selection_threshold` for half of the error rate of all rows. First column: how often the true\n"
        "error rate above the threshold exceeds the limit. Second column: the mean share of rows that are accepted and wrong,\n"
        "as a share of its limit times 5 %."
    ),
    "Monitors of a stream": (
        "False alarms of {class}`calibrant.online.CalibrationMonitor` on one stream with the rows of the scenario. For changes, the\n"
        "run length is twenty times the stream. The guarantee is an inequality, so the shares are lower."
    ),
    "Label shift": (
        "{class}`calibrant.LabelShift`: share of class frequencies of the target in their intervals, and how often the test against\n"
        "other changes than label shift rejects at the 5 % level. No claim is made where a class has fewer than two source rows."
    ),
    "Gains": (
        "Gain in log-loss on new rows of the fitted map: the interval in `explanation_`, how often `explanation_` calls the gain on\n"
        "calibrated predictions significant, and the interval of the recommended method in a report."
    ),
    "Calibrated probabilities": (
        "{class}`calibrant.WithIntervals`: the share of probabilities of new rows in their intervals, where the family contains\n"
        "the true map. Rows of one set are covered or missed together, so limits are only rough."
    ),
    "Calibrated probabilities: temperature scaling": (
        "The same for temperature scaling, with the predictions of each scenario."
    ),
    "Calibrated probabilities without a claim": (
        "The coverage that intervals would have where `caution_` gives a reason, so that they need the name of a method. For `auto`,\n"
        "neither refits of the selected components nor refits that repeat the choice are known to reach 95 % for every true map: the\n"
        "average over candidates is biased towards the identity, and refits repeat that bias. So `auto` has no interval."
    ),
    "Rankings": "Equally good methods on independent tasks, with normal, heavy-tailed and rounded results.",
    "Fresh scenarios": (
        "The thresholds below which intervals and tests make no claim were set with the scenarios above. These have other sizes,\n"
        "shapes, weights and groups, and no threshold was fitted to them. The rule of the gap of means was set after a first look."
    ),
}

INTRODUCTION = """# What the numbers promise

Every p-value promises a level, and every interval a coverage. This page shows both by simulation, in scenarios that
are easy and in scenarios that are not: few rows, rare events, ten distinct scores, rounded probabilities, log-normal
weights, dependent rows in groups of equal and of very unequal size, near-deterministic predictions, heavy tails, and
up to 40 classes. All predictions are calibrated by construction unless the scenario says otherwise.

Some results make no claim where none would be true: a test has a `caution`, or there is no interval and a `note` says
why. Shares are in per cent of the simulations in which a claim is made.

`python benchmarks/promises.py --results promises.jsonl` runs the simulations and continues where it stopped; with
`--page docs/promises.md` it writes this page, and with `--cells` it prints the exact limits of every cell.
"""

AGAIN_TEXT = """The worst case is the least favourable of many scenarios, so it is worse than nominal by chance alone. It is in bold if
it is on the wrong side by more than its exact 95 % limits. A cell that is bold after its first simulations is in doubt: it is simulated five
times as often again, and only the new simulations count. In the tables below, a second number, after a stroke, is the percentage of
simulations without a claim. "Few" means fewer than 40 simulations with one, and "none" that no claim is made at all.
"""

SOURCES = """## Other results with an interval or a p-value

| result | promise |
|---|---|
| {func}`calibrant.compare`, learning curves of a proper loss | {func}`~calibrant.intervals.loss_difference`, for fixed predictions: the variation between fits is not included |
| `calibrant evaluate`, learning curves of other metrics | {func}`~calibrant.intervals.bootstrap` |
| metrics of partitions and of one pass (`calibrant.distributed`, `--stream`) | jackknife |
| tests of partitions ({class}`~calibrant.hypothesis_tests.TestSums`) | `cumulative_test` and `spiegelhalter_test`, from sums |
| means and class tables of a report | gap of means; {func}`~calibrant.intervals.clopper_pearson` for few events |
| {func}`~calibrant.hypothesis_tests.discrete_score_test`, pass rates of a study | {func}`~calibrant.intervals.clopper_pearson` |
| {func}`~calibrant.metrics.decompose` by recalibration | a normal interval with the standard error of the cross-fitted terms; no claim near zero, use the lower bound |
| {func}`~calibrant.hypothesis_tests.smallest_detectable_error` | a bound on the power of `cumulative_test`, checked by `make test-slow` |
| {class}`calibrant.active.ActiveCalibration` | no level: it stops by an expectation under its prior, see {doc}`active` |
| Venn-Abers predictors | a pair of predictions without a level, see {doc}`uncertainty` |
| Gaussian processes | credible intervals, right if the prior is |
"""
