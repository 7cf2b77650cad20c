"""What a report says about more calibration rows: numbers of the table, and nothing that the points do not bear."""

import numpy as np
import pytest
from report_rows import drawn, powered

from calibrant.plots.learning_curve import Hyperbola, LearningCurve
from calibrant.report import assess
from calibrant.report.sections.methods import learning_sentence


def curve(sizes, losses, uncalibrated=0.6):
    sizes, losses = np.array(sizes), np.array(losses)
    empty = np.full(len(sizes), np.nan)
    return LearningCurve(
        method="platt",
        metric="log_loss",
        n_rows=150,
        level=0.95,
        sizes=sizes,
        loss=losses,
        low=empty,
        high=empty,
        difference_low=empty,
        difference_high=empty,
        uncalibrated=uncalibrated,
        notes=(),
        trend=Hyperbola.through(sizes, losses),
    )


@pytest.mark.parametrize(
    "losses",
    [[9.2, 0.12, 0.11], [np.inf, 0.12, 0.11], [0.12, 9.2, 0.11], [3.0, 1.0, 0.1], [0.5, 0.3, np.inf]],
)
def test_an_outlier_leads_to_no_promise(losses):
    """A straight fit of the first would promise a fall by 2 from -2."""
    said = learning_sentence(curve([30, 60, 120], losses), 150, "platt", is_recommended=True)
    assert said == "The learning curve of platt is too irregular for an extrapolation to more rows."


def test_the_gain_of_more_rows_is_that_of_the_law():
    """Losses 0.5 + 12/n: with 120 rows 0.1 to gain, half of it by twice as many, nine tenths by ten times as many."""
    said = learning_sentence(
        curve([30, 60, 120], [0.9, 0.7, 0.6], uncalibrated=0.8), 120, "platt", is_recommended=True
    )
    assert said.startswith(
        "More rows would improve platt: twice as many would lower its log-loss of 0.6 by about 0.05, ten times as many by 0.09"
    )


@pytest.mark.parametrize(
    ("uncalibrated", "words"),
    [
        (
            0.55,
            "With ten times as many rows platt may help: its log-loss may fall from 0.6 to 0.51, below the 0.55",
        ),
        (0.4, "Even with ten times as many rows platt would not beat the uncalibrated predictions"),
    ],
)
def test_advice_to_keep_is_not_followed_by_a_promise(uncalibrated, words):
    said = learning_sentence(
        curve([30, 60, 120], [0.9, 0.7, 0.6], uncalibrated), 120, "platt", is_recommended=False
    )
    assert said.startswith(words)


def test_the_last_point_is_the_loss_of_the_table():
    y, p = drawn(600, 3)
    found = assess(y, powered(p, 2.0), methods=["temperature"])
    table = {row.name: row.log_loss for row in found.recommendation.methods}
    assert found.learning.loss[-1] == pytest.approx(table["temperature"], rel=1e-9)
    assert found.learning.uncalibrated == pytest.approx(table["uncalibrated"], rel=1e-9)
