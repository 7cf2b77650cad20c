"""Report of more rows than it can hold: exact sums over all rows beside the assessment of a sample."""

from dataclasses import replace

from calibrant.hypothesis_tests import TestSums
from calibrant.intervals import Interval
from calibrant.ranking.holm import holm
from calibrant.report.assessment import Assessment
from calibrant.report.contents import Estimate, ScoreRow, TestRow
from calibrant.report.evaluation_set import plain_float

__all__ = ["METRICS_OF_ALL_ROWS", "with_all_rows"]

SCORES = {"log_loss": "log-loss", "brier_score": "Brier score", "accuracy": "accuracy"}
ERRORS = {"confidence_ece": "ECE of the predicted class", "classwise_ece": "classwise ECE"}

METRICS_OF_ALL_ROWS = (*SCORES, *ERRORS)
"""Names of the metrics that are computed of all rows."""


def with_all_rows(
    found: Assessment, exact: dict[str, Interval], tests: TestSums, n_rows: int, how: str
) -> Assessment:
    """Return the assessment of a sample with the metrics and tests of all rows first.

    ``exact`` has :data:`METRICS_OF_ALL_ROWS`; ``how`` is what chose the rows of the sample, such as "A hash".
    """
    split = (
        f"{how} chose {found.data.n_rows:,} of {n_rows:,} rows; metrics and tests 'of all rows' are sums over every row. "
        f"{found.data.split}"
    )
    settings = {**found.repeatability.settings, "rows in all": str(n_rows)}
    return replace(
        found,
        data=replace(found.data, split=split),
        scores=(*_score_rows(exact, SCORES), *found.scores),
        errors=(*_score_rows(exact, ERRORS), *found.errors),
        tests=(*_test_rows(tests), *found.tests),
        repeatability=replace(found.repeatability, settings=settings),
    )


def _score_rows(exact: dict[str, Interval], names: dict[str, str]) -> list[ScoreRow]:
    return [
        ScoreRow(
            Estimate(
                f"{name} of all rows",
                exact[metric].estimate,
                plain_float(exact[metric].low),
                plain_float(exact[metric].high),
                exact[metric].level,
                f"exact sums over all rows: {exact[metric].definition}; {exact[metric].method}",
                higher_is_better=metric == "accuracy",
                note=exact[metric].note,
            ),
            None,
            None,
        )
        for metric, name in names.items()
    ]


def _test_rows(tests: TestSums) -> list[TestRow]:
    kuiper, brier = tests.cumulative(), tests.spiegelhalter()
    rows = [
        ("Cumulative test (Kuiper) of all rows", tests.event, kuiper),
        ("Spiegelhalter's test of all rows", "all probabilities", brier),
    ]
    adjusted = holm([result.p_value for _, _, result in rows]).tolist()
    about = "For information: the tests of the sample decide the verdict."
    return [
        TestRow(name, event, result.statistic, result.p_value, p_value, f"{result.test}. {about}")
        for (name, event, result), p_value in zip(rows, adjusted, strict=True)
    ]
