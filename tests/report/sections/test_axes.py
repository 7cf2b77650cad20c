"""Axes of charts: round ticks, bounds of any values, lines with gaps."""

from calibrant.report.sections.axes import Plot, bounds, path, ticks_between


def test_ticks_are_round_and_inside():
    for low, high in ((0, 1), (-0.031, 0.0102), (0, 1e-7), (3, 40_000), (-5.2, -5.1)):
        ticks = ticks_between(low, high)
        assert 2 <= len(ticks) <= 8
        assert all(low <= tick <= high for tick in ticks)


def test_bounds_of_nothing_and_of_a_constant_have_a_width():
    assert bounds([]) == (-0.06, 1.06)
    low, high = bounds([2.0, None, 2.0])
    assert low < 2 < high


def test_a_line_is_broken_where_a_value_is_missing():
    """At 0 to 100 in both directions, from the left edge at 0."""
    plot = Plot.of((0.0, 1.0), (0.0, 1.0), left=0, top=0, right=100, height=100)
    drawn = plot.line([(0.0, 0.0), (0.5, None), (1.0, 1.0)], "line")
    assert 'd="M0 100M100 0"' in drawn
    assert path([]) == ""
