"""The plot of segments: its numbers, their number, and the colours of rejected ones."""

import numpy as np
import pytest

from calibrant.errors import ParameterError
from calibrant.hypothesis_tests import subgroup_calibration

pytest.importorskip("matplotlib")

from calibrant.plots import SubgroupDisplay


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(0)
    p, site = generator.random(900), generator.choice(["a", "b", "c"], 900)
    y = (generator.random(900) < np.where(site == "b", 0.4 * p, p)).astype(int)
    return y, p, {"site": site}


def test_the_data_are_those_of_the_test(rows):
    y, p, columns = rows
    display = SubgroupDisplay.from_predictions(y, p, columns, n_resamples=200)
    expected = subgroup_calibration(y, p, columns, n_resamples=200)
    assert display.columns()["p_value"].tolist() == expected.p_value.tolist()
    assert len(display.frame()) == 3


def test_the_plot_has_a_line_per_segment(rows):
    y, p, columns = rows
    display = SubgroupDisplay.from_predictions(y, p, columns, n_segments=2, name="sites", n_resamples=200)
    axes = display.plot().ax_
    assert [label.get_text() for label in axes.get_yticklabels()] == list(display.subgroups.segment[:2])
    first, second = axes.lines[:2]
    assert first.get_xdata() == pytest.approx([display.subgroups.low[0], display.subgroups.high[0]])
    assert first.get_color() != second.get_color()
    assert axes.get_title() == "sites"
    with pytest.raises(ParameterError, match="n_segments"):
        SubgroupDisplay.from_predictions(y, p, columns, n_segments=0)
