"""The benchmark of promises: its cells, its rule for cells in doubt, its page, and some of its claims."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def promises(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import promises

    return promises


def cell_of(promises, key):
    (found,) = [cell for cell in promises.cells() if cell.key == key]
    return found


def test_every_claim_has_fifteen_scenarios_and_a_place_on_the_page(promises):
    by_claim = defaultdict(list)
    for cell in promises.cells():
        by_claim[cell.claim].append(cell.scenario)
    shown = [claim for claims in promises.GROUPS.values() for claim in claims]
    assert sorted(shown) == sorted(by_claim)
    assert set(promises.GROUPS) == set(promises.ABOUT)
    for claim, scenarios in by_claim.items():
        assert len(set(scenarios)) == len(scenarios)
        # Fresh scenarios are few on purpose, power has its own list, and errors positive by noise have no interval at all.
        if (
            not claim.startswith(("fresh", "verdict: power", "WithIntervals, method"))
            and "confidence_ece" not in claim
        ):
            assert len(scenarios) >= 15, claim


def test_a_cell_in_doubt_is_judged_by_new_simulations_only(promises):
    """70 of 400 rejections at a level of 5 % are too many, whatever came before; 90 of 2,000 are not."""
    cell = promises.Cell("test", "rows", 0.05, "level", lambda generator: bool(generator.random() < 0.05))
    done = {cell.key: promises.Count(400, 70.0)}
    assert not promises.is_kept(cell, done[cell.key])
    assert promises.wanted(cell, done) == (cell.key + promises.AGAIN, 2000, 400)
    done[cell.key + promises.AGAIN] = promises.Count(2000, 90.0)
    assert promises.final(cell, done).held == 90
    assert promises.is_kept(cell, promises.final(cell, done))
    assert promises.is_complete(cell, done)


def test_an_interrupted_run_continues_and_the_page_names_its_extent(promises, tmp_path, monkeypatch):
    monkeypatch.setattr(promises, "run_before", None)
    path = tmp_path / "results.jsonl"
    everything = (0, 1)
    promises.run(path, "clopper_pearson | 10 rows", 1e9, 20, everything)
    first = path.read_text()
    promises.run(path, "clopper_pearson | 10 rows", 1e9, 40, everything)
    assert path.read_text().startswith(first)
    done = promises.stored(path)
    assert [count.total for count in done.values()] == [40] * 4
    text = promises.page(done)
    assert "The run was stopped early" in text
    assert "| `clopper_pearson` | 95 % |" in text


QUICK = [
    "loss_difference | log-normal weights (1.5), 4 classes, 500 rows",
    "report: gap of means | 15 unequal groups, dependent, 473 rows",
    "jackknife, Brier score | heavy tails, two classes, 500 rows",
    "selection_threshold, clopper-pearson | two classes, 1,000 rows",
    "CalibrationMonitor, any-time | two classes, 1,000 rows",
    "CalibrationMonitor, change | ten distinct scores, 200 rows",
    "WithIntervals of temperature | 5 imbalanced classes, 500 rows",
    "discrete_score_test | 4 classes, 200 rows, in tenths",
    "subgroup_calibration, any segment | 4 classes, 200 rows",
    "wilcoxon_holm, any pair | 5 methods, 10 tasks, ties",
]


@pytest.mark.parametrize("key", QUICK)
def test_a_promise_is_kept_in_some_simulations(promises, key):
    cell = cell_of(promises, key)
    assert promises.is_kept(cell, promises.simulate(cell, 0, 60))


SLOW = [
    "verdict: miscalibrated | 20 groups, one with 70 %, dependent rows",
    "verdict: miscalibrated | 60 equal groups, dependent, 600 rows",
    "bootstrap | two classes, 40 rows",
    "kernel_test, wild | two classes, 1,000 rows",
    "spiegelhalter_test | 4 classes, 600 rows",
    "fresh: verdict | 40 groups, one with 30 %, dependent rows",
    "LabelShift: class prior | 4 classes, 600 rows",
]


@pytest.mark.slow
@pytest.mark.parametrize("key", SLOW + QUICK)
def test_a_promise_is_kept(promises, key):
    cell = cell_of(promises, key)
    assert promises.is_kept(cell, promises.simulate(cell, 1000, 400))


@pytest.mark.slow
def test_a_shift_is_found_though_one_group_has_most_of_the_rows(promises):
    """By 38 % of the verdicts; with the variance between groups and a design effect it was 21 %."""
    cell = cell_of(promises, "verdict: power | shifted by 6 points, 20 groups, one with 70 %, 600 rows")
    count = promises.simulate(cell, 0, 200)
    assert count.held / count.claims > 0.28
    assert np.isfinite(count.seconds)
