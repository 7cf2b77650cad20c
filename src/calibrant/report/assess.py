"""Assess predictions: verdict, advice and all the numbers behind them."""

from collections.abc import Sequence
from typing import Any

from calibrant.calibrator import Calibrator
from calibrant.errors import ParameterError
from calibrant.options import check_level, is_whole
from calibrant.report.assessment import Assessment
from calibrant.report.class_rows import class_rows
from calibrant.report.data_summary import data_summary
from calibrant.report.decompositions import decompositions
from calibrant.report.error_rows import error_rows, lower_bound
from calibrant.report.evidence import evidence_of
from calibrant.report.more_rows import learning_numbers
from calibrant.report.pictures import bin_sensitivities, cumulative_numbers, curves
from calibrant.report.pitfalls import pitfalls
from calibrant.report.recommendation import recommendation
from calibrant.report.repeatability import repeatability
from calibrant.report.rows import Rows, drawn_rows
from calibrant.report.score_rows import score_rows
from calibrant.report.slopes import mean_gap, slope_estimates
from calibrant.report.steps import Progress, Steps
from calibrant.report.trial import tried
from calibrant.report.verdict import is_small, verdict

__all__ = ["assess"]

# Rows times classes that are measured at most, and rows, for two classes and for more, and numbers that costly parts get.
MEASURED_NUMBERS = 20_000_000
SAMPLE_ROWS_OF_TWO, SAMPLE_ROWS, SAMPLE_NUMBERS = 50_000, 10_000, 5_000_000

# Steps and about how long each takes.
STEPS: dict[str, float] = {
    "reading": 3,
    "testing": 10,
    "trying methods": 45,
    "learning curve": 12,
    "classes": 6,
    "scores": 4,
    "errors": 8,
    "decompositions": 6,
    "pictures": 6,
}


def assess(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    methods: Sequence[str | Calibrator] | None = None,
    cv: Any = 5,
    level: float = 0.95,
    title: str | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Assessment:
    r"""Tell whether probabilities can be trusted, how sure that is, and what to do about it.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two; logits only through
        ``Predictions.from_logits``. Rows that the classifier was not fitted to.
    sample_weight : array of shape (n,), optional
        How much each row matters.
    groups : array of shape (n,), optional
        Rows of one group, such as those of one patient, depend on each other: they are held out together, and
        intervals and the verdict take whole groups as independent.
    methods : sequence of str or Calibrator, optional
        Calibration methods to try, the simplest first; by default a few quick ones that suit the number of rows and
        classes. An empty one tries none.
    cv : int, splitter or iterable of splits, default=5
        How rows are held out for trying methods; every row once.
    level : float, default=0.95
        Confidence of the verdict and of intervals.
    title : str, optional
        Heading of the report.
    random_state : int, default=0
        Seed of all random numbers: the same one gives the same report, but for the times in it.
    progress : function, optional
        Called as ``progress(done, total, what)`` on the way, with ``total`` 100.

    Returns
    -------
    Assessment
        Plain numbers and sentences; ``print`` shows the gist, ``to_html``, ``to_markdown`` and ``to_json`` the whole.

    Notes
    -----
    **Verdict.** A family of up to five tests, each valid by itself, is adjusted after Holm; the predictions are called
    miscalibrated if the smallest adjusted p-value is at most one minus the level, so that calibrated ones are with no
    more than that probability. If none objects, they are called calibrated only if an error of five points, and for rare
    events a factor of two, would have been seen with a probability of 80 %. Otherwise the verdict is unclear, or that events
    are too few. See :doc:`/report`.

    **Advice.** Of the methods tried, the first whose log-loss on rows held out is within one standard error of the
    lowest is chosen. It is recommended if its gain over doing nothing is more than noise, by an interval that holds
    for all methods tried at once; or, where a true class had the probability zero, if the Brier score falls so. A gain of less
    than half a percent is not worth it, unless the tests show more than a small error.

    **Many rows.** Up to :math:`2 \cdot 10^7` probabilities are measured, of more a random part. Quick methods, such as those
    that two classes get by default, are tried on up to :math:`2 \cdot 10^6` of them. Others are tried on 10,000 rows,
    among which are up to 500 of every rare class, with weights that restore its share; the rest is then mapped by what was
    fitted to these.

    Examples
    --------
    Sure of itself at 90 %, right in three of four:

    >>> p = [[0.9, 0.1]] * 200 + [[0.1, 0.9]] * 200
    >>> y = ([0, 0, 0, 1] * 50) + ([1, 1, 1, 0] * 50)
    >>> found = assess(y, p, methods=["temperature"])
    >>> found.verdict.status, found.verdict.direction
    ('miscalibrated', 'over-confident')
    >>> found.recommendation.method, round(found.recommendation.gain.value, 2)
    ('temperature', 0.09)
    """
    check_level(level)
    if not is_whole(random_state, 0):
        raise ParameterError(
            f"random_state must be a whole number of at least 0, so that the report can be repeated, not {random_state!r}."
        )
    if title is not None and not isinstance(title, str):
        raise ParameterError(f"title must be text, not {title!r}.")
    level, random_state = float(level), int(random_state)
    steps = Steps(STEPS, progress)
    with steps("reading"):
        given = Rows.parse(y_true, y_proba, sample_weight, groups)
        summary = data_summary(given, len(y_true) - given.n_rows, _split(given, cv))
        rows = given.take(drawn_rows(given, given.n_rows, MEASURED_NUMBERS, random_state))
        # Splits that are listed name rows by their numbers among all.
        is_free = is_whole(cv, 2) or hasattr(cv, "split")
        most = SAMPLE_ROWS_OF_TWO if rows.n_classes == 2 else SAMPLE_ROWS
        drawn = drawn_rows(rows, most, SAMPLE_NUMBERS, random_state)
        sample = rows.take(drawn)
    with steps("testing"):
        evidence = evidence_of(rows, sample, level, random_state)
    with steps("trying methods"):
        small = evidence.p_value > 1 - level or is_small(evidence, level)
        trial = tried(
            rows, methods, cv, level, random_state, steps.within, may_sample=is_free, small_error=small
        )
        sample_mapped = None if trial.after is None else trial.after.take(drawn)
    after, sample_after = (trial.after, sample_mapped) if trial.helps else (None, None)
    with steps("learning curve"):
        learning, more_rows = learning_numbers(trial, given.n_rows, cv, level, random_state)
        advice = recommendation(rows, trial, evidence.p_value, more_rows, level)
    with steps("classes"):
        classes = class_rows(rows, after, sample, evidence, level)
    with steps("scores"):
        scores = score_rows(rows, after, level, random_state)
    with steps("errors"):
        bound = lower_bound(sample, level)
        errors = error_rows(sample, sample_after, bound, level, random_state)
    with steps("decompositions"):
        parts = decompositions(sample, sample_after, level)
    with steps("pictures"):
        drawings = curves(rows, sample, sample_mapped, trial, classes, level, random_state)
        paths = cumulative_numbers(rows, trial)
        sensitivities = bin_sensitivities(sample, sample_mapped, trial, random_state)
    steps.finish()
    settings = {
        "level": level,
        "cv": cv,
        "methods": "default" if methods is None else ", ".join(str(method) for method in methods),
        "random_state": random_state,
        "rows given": given.n_rows,
        "rows measured": rows.n_rows,
        "rows on which methods were tried": trial.rows.n_rows,
        "weights": "yes" if summary.weighted else "no",
        "groups": "no" if summary.n_groups is None else summary.n_groups,
    }
    return Assessment(
        title="Calibration report" if title is None else title,
        data=summary,
        verdict=verdict(rows, evidence, classes, bound, mean_gap(rows, level), level),
        recommendation=advice,
        scores=scores,
        decompositions=parts,
        errors=errors,
        slopes=slope_estimates(rows, evidence.line, level),
        tests=evidence.tests,
        classes=classes,
        curves=drawings,
        cumulative=paths,
        bin_sensitivity=sensitivities,
        learning=learning,
        pitfalls=pitfalls(summary, rows, sample, evidence, trial, advice, level),
        repeatability=repeatability(settings, steps.seconds),
    )


def _split(rows: Rows, cv: Any) -> str:
    folds = f"{cv} folds" if isinstance(cv, int) else "the splits given by cv"
    together = "" if rows.groups is None else ", rows of one group together"
    return (
        f"All rows are taken as held out from the classifier. Numbers after calibration are of rows that the map was not "
        f"fitted to ({folds}{together})."
    )
