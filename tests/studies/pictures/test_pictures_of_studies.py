"""Pictures of studies: their numbers are right, and they are drawn the same every time."""

import csv
from io import StringIO

import numpy as np
import pytest
from scipy.stats import rankdata
from study_samples import crossed, sample

from calibrant.errors import RecipeError
from calibrant.ranking import critical_difference
from calibrant.studies.pictures import draw_picture, svg_of
from calibrant.studies.pictures.displays import BarsDisplay, LinesDisplay
from calibrant.studies.pictures.kinds import BUILDERS
from calibrant.studies.pictures.options import KINDS, PictureOptions
from calibrant.studies.results import columns_text

CALIBRATORS = ["none", "beta", "dirichlet"]


def built(results, **entry):
    options = PictureOptions.parse({"name": "picture", **entry})
    return BUILDERS[options.kind](results, options)


def numbers(results, **entry):
    return built(results, **entry).displays[""].columns()


def noisy(measure="log_loss", **levels):
    generator = np.random.default_rng(0)
    drawn = {}

    def value(**labels):
        return drawn.setdefault(tuple(labels.items()), float(generator.random()))

    return crossed(value, measure, **levels)


def means(results, measure, *labels):
    """Return the mean of a measure for all values of some labels."""
    columns = results.columns()
    keys = list(zip(*(columns[label].tolist() for label in labels), strict=True))
    return {key: columns[measure][[one == key for one in keys]].mean() for key in dict.fromkeys(keys)}


def test_average_ranks_of_a_critical_difference_diagram():
    results = noisy(data=["a", "b", "c"], classifier=["x", "y"], calibrator=CALIBRATORS, fold=[0, 1])
    found = numbers(results, kind="critical-difference", measure="log_loss")
    by_task = means(results, "log_loss", "data", "classifier", "calibrator")
    values = np.array(list(by_task.values())).reshape(6, 3)
    expected = dict(zip(CALIBRATORS, rankdata(values, axis=1).mean(axis=0), strict=True))
    assert dict(zip(found["method"].tolist(), found["average_rank"], strict=True)) == pytest.approx(expected)


def test_tasks_of_a_critical_difference_diagram_can_be_chosen():
    results = noisy(data=["a", "b", "c"], classifier=["x", "y"], calibrator=CALIBRATORS)
    display = built(results, kind="critical-difference", measure="log_loss", tasks="data").displays[""]
    assert display.n_tasks == 3
    control = built(results, kind="critical-difference", measure="log_loss", test="bonferroni-dunn").displays[
        ""
    ]
    assert control.control == control.columns()["method"][0]  # the best


def test_incomplete_tasks_are_left_out_and_counted():
    results = crossed(
        lambda data, calibrator: (
            float("nan") if (data, calibrator) == ("a", "beta") else ord(data) + len(calibrator)
        ),
        data=["a", "b", "c"],
        calibrator=CALIBRATORS,
    )
    drawn = built(results, kind="critical-difference", measure="log_loss")
    assert drawn.displays[""].n_tasks == 2
    assert drawn.notes[1:] == ("1 of 3 tasks is left out because a number is missing.",)


def test_shares_of_tests_that_are_passed():
    results = noisy("p", data=["a", "b"], calibrator=CALIBRATORS, fold=[0, 1, 2])
    found = numbers(results, kind="pass-rate", measure="p", level=0.4)
    columns = results.columns()
    for method, passed in zip(found["method"], found["passed"], strict=True):
        assert passed == (columns["p"][columns["calibrator"] == method] > 0.4).sum()
    assert set(found["units"]) == {6}


def test_a_pass_rate_diagram_counts_units():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    results = noisy("p", data=["a", "b"], calibrator=CALIBRATORS, fold=[0, 1, 2])
    display = built(results, kind="pass-rate", measure="p").displays[""].plot()
    assert "fraction of 6 units with p > 0.05" in display.ax_.get_xlabel()
    assert display.ax_.get_title() == "Units on which calibration is not rejected"
    pyplot.close(display.figure_)


def test_a_critical_difference_diagram_says_which_test_it_is():
    results = noisy(data=["a", "b", "c"], classifier=["x", "y"], calibrator=CALIBRATORS)
    entry = {"kind": "critical-difference", "measure": "log_loss"}
    said = "Critical difference of average ranks at the 5 % level"
    difference = critical_difference(3, 6, test="nemenyi")
    assert built(results, **entry).notes == (f"{said} (Nemenyi test of all pairs): {difference:.4g}.",)
    difference = critical_difference(3, 6, test="bonferroni-dunn")
    for test in ({}, {"test": "bonferroni-dunn"}):  # a control is enough
        drawn = built(results, **entry, control="beta", **test)
        assert drawn.notes == (f"{said} (Bonferroni-Dunn test against beta): {difference:.4g}.",)
    with pytest.raises(RecipeError, match="has no control; drop control"):
        built(results, **entry, control="beta", test="nemenyi")


def test_a_one_sided_bar_extends_to_the_worse_methods_only():
    results = noisy(data=list("abcdef"), calibrator=CALIBRATORS)
    entry = {"kind": "critical-difference", "measure": "log_loss", "control": "beta"}
    display = built(results, **entry, sides=1).displays[""]
    assert display.critical_difference == critical_difference(3, 6, test="bonferroni-dunn", sides=1)
    ranks = dict(zip(display.methods, display.average_ranks, strict=True))
    ((low, high),) = display._bars()
    assert (low, high) == (ranks["beta"], min(ranks["beta"] + display.critical_difference, 3))
    with pytest.raises(RecipeError, match="only the Bonferroni-Dunn test can be one-sided"):
        built(results, kind="critical-difference", measure="log_loss", sides=1)


def test_one_bar_joins_all_where_friedmans_test_does_not_reject():
    results = noisy(data=list("abcdef"), calibrator=CALIBRATORS)
    entry = {"kind": "critical-difference", "measure": "log_loss", "post_hoc_below": 1e-9}
    drawn = built(results, **entry)
    assert [set(group) for group in drawn.displays[""].groups] == [set(CALIBRATORS)]
    assert drawn.notes[0].endswith(
        "not below 1e-09, so there is no post-hoc test, and one bar joins all methods."
    )


@pytest.mark.parametrize(
    ("labels", "words"), [({"repeat": [0, 1]}, "splits"), ({"trial": ["t"], "seed": [0, 1]}, "seeds")]
)
def test_bands_are_over_splits_or_over_seeds(labels, words):
    results = noisy(rows=[50, 100], calibrator=CALIBRATORS, **labels)
    drawn = built(results, kind="lines", x="rows", measure="log_loss", band="sd")
    assert drawn.notes == (f"Bands: mean ± one standard deviation over {words}.",)
    drawn = built(results, kind="measures", x=[1], measures=["log_loss"], band="sd")
    assert drawn.notes == (f"Bands: mean ± one standard deviation over {words}.",)


def test_points_of_lines_are_means_over_all_else_and_bands_spread_over_splits():
    results = noisy(data=["a", "b"], rows=[100, 50], calibrator=CALIBRATORS, repeat=[0, 1, 2])
    found = numbers(results, kind="lines", x="rows", measure="log_loss", scale=100)
    expected = means(results, "log_loss", "calibrator", "rows")
    splits = means(results, "log_loss", "calibrator", "rows", "repeat")
    assert found["x"].tolist() == [50, 100] * 3
    for series, x, mean, sd in zip(*(found[name] for name in ("series", "x", "mean", "sd")), strict=True):
        assert mean == pytest.approx(100 * expected[series, int(x)])
        own = [splits[series, int(x), repeat] for repeat in range(3)]
        assert sd == pytest.approx(100 * np.std(own, ddof=1))


def test_words_on_the_horizontal_axis_keep_their_order():
    results = noisy(data=["zebra", "ant"], calibrator=["none", "beta"])
    found = numbers(results, kind="lines", x="data", measure="log_loss")
    assert found["x"].tolist() == ["zebra", "ant"] * 2


def test_words_can_have_places_on_the_horizontal_axis():
    results = noisy(data=["zebra", "ant", "cow"], calibrator=["none", "beta"])
    entry = {"kind": "lines", "x": "data", "measure": "log_loss", "places": {"ant": 2, "zebra": 8}}
    found = numbers(results, **entry)
    assert found["x"].tolist() == [2, 8] * 2
    expected = means(results, "log_loss", "calibrator", "data")
    assert found["mean"][:2] == pytest.approx([expected["none", "ant"], expected["none", "zebra"]])


def test_measures_have_places_of_their_own():
    labels = [{"data": data, "calibrator": c} for data in "ab" for c in ("none", "beta")]
    results = sample(labels, [{"log_loss": float(k), "accuracy": 10.0 * k} for k in range(4)])
    found = numbers(results, kind="measures", x=[5, 15], measures=["log_loss", "accuracy"])
    assert found["x"].tolist() == [5, 15, 5, 15]
    assert found["mean"].tolist() == [1, 10, 2, 20]


def trials():
    labels = [{"trial": "t", "calibrated": c, "seed": s} for c in (True, False) for s in (0, 1)]
    details = [{"series": {"queries": [0, 10], "accuracy": [k, k + 1.0]}} for k in range(4)]
    return sample(labels, [{"final": 1.0}] * 4, details=details)


def test_series_of_trials_are_averaged_over_seeds():
    found = numbers(trials(), kind="series", trial="t", x="queries", y="accuracy", by="calibrated")
    assert found["series"].tolist() == ["calibrated"] * 2 + ["not calibrated"] * 2
    assert found["x"].tolist() == [0, 10, 0, 10]
    assert found["mean"].tolist() == [0.5, 1.5, 2.5, 3.5]
    np.testing.assert_allclose(found["sd"], np.sqrt(0.5))


def test_a_regression_on_all_seeds_lies_near_a_smooth_curve():
    """Twenty seeds of sin x with noise of 0.3: the mean of the posterior is closer to it than the means of the seeds."""
    x = np.linspace(0, 6, 25)
    generator = np.random.default_rng(0)
    details = [
        {"series": {"x": x.tolist(), "y": (np.sin(x) + 0.3 * generator.normal(size=25)).tolist()}}
        for _ in range(20)
    ]
    results = sample(
        [{"trial": "t", "seed": seed} for seed in range(20)], [{"final": 1.0}] * 20, details=details
    )
    entry = {"kind": "series", "trial": "t", "x": "x", "y": "y"}
    smooth, raw = numbers(results, **entry, band="gp"), numbers(results, **entry)
    error = np.abs(smooth["mean"] - np.sin(x))
    assert np.sqrt(np.mean(error**2)) < np.sqrt(np.mean((raw["mean"] - np.sin(x)) ** 2))
    assert (error < 4 * smooth["sd"]).all()
    assert built(results, **entry, band="gp").notes == (
        "Gaussian-process regression on all seeds; bands: ± one standard deviation of its posterior mean.",
    )


def test_bars_are_means_and_can_be_divided_by_one_of_them():
    results = noisy(data=["a", "b"], calibrator=CALIBRATORS, fold=[0, 1])
    found = numbers(results, kind="bars", measure="log_loss", by="calibrator")
    expected = means(results, "log_loss", "calibrator")
    assert found["value"] == pytest.approx(list(expected.values()))
    relative = numbers(results, kind="bars", measure="log_loss", by="calibrator", relative_to="beta")
    assert relative["value"] == pytest.approx(found["value"] / expected["beta",])
    grouped = numbers(
        results, kind="bars", measure="log_loss", by="data", series="calibrator", relative_to="none"
    )
    both = means(results, "log_loss", "data", "calibrator")
    assert grouped["value"] == pytest.approx(
        [both[d, c] / both[d, "none"] for d in "ab" for c in CALIBRATORS]
    )


def test_choices_of_parameters_are_counted():
    labels = [{"data": d, "calibrator": c} for d in "abc" for c in ("grid", "none")]
    chosen = [
        {"chosen": [{"k": k}, {"k": 1.0}]} if not number % 2 else {}
        for number, k in enumerate([8, 0, 1, 0, 8, 0])
    ]
    results = sample(labels, [{"log_loss": 1.0}] * 6, details=chosen)
    found = numbers(results, kind="chosen", calibrator="grid", parameter="k")
    assert (found["group"].tolist(), found["value"].tolist()) == (["1", "8"], [4, 2])


@pytest.mark.parametrize(
    "entry",
    [
        {"kind": "critical-difference", "measure": "log_loss"},
        {"kind": "pass-rate", "measure": "p"},
        {"kind": "lines", "x": "rows", "measure": "log_loss"},
        {"kind": "measures", "x": [1], "measures": ["log_loss"]},
        {"kind": "series", "trial": "t", "x": "x", "y": "y"},
        {"kind": "bars", "measure": "log_loss", "by": "data"},
        {"kind": "chosen", "calibrator": "none", "parameter": "k"},
    ],
)
def test_where_nothing_is_done_nothing_is_drawn(entry):
    results = crossed(lambda **_: float("nan"), data=["a", "b"], rows=[1, 2], calibrator=CALIBRATORS)
    found = built(results, **entry)
    assert not found.displays
    assert found.notes == ("Not drawn: none of its units is finished.",)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"name": "p"}, "kind must be one of critical-difference"),
        ({"name": "p", "kind": "lines", "measure": "log_loss"}, "has no x; add x"),
        (
            {"name": "p", "kind": "lines", "measure": "log_loss", "x": "a", "y": "b"},
            "unknown key 'y'; known are",
        ),
        (
            {"name": "p", "kind": "lines", "measure": "log_loss", "x": "a", "band": "se"},
            "band must be one of sd, gp",
        ),
        (
            {"name": "p", "kind": "lines", "measure": "log_loss", "x": "a", "log_x": 1},
            "log_x must be true or false",
        ),
        ({"name": "p", "kind": "lines", "measure": "lol", "x": "a"}, "asks for the measure 'lol'"),
        ({"name": "p", "kind": "pass-rate", "measure": "log_loss", "level": "x"}, "level must be a number"),
        (
            {"name": "p", "kind": "measures", "measures": ["log_loss"], "x": [1, 2]},
            "2 places x for 1 measures",
        ),
        (
            {"name": "p", "kind": "measures", "measures": ["log_loss"], "x": "rows"},
            "x must be a list of numbers",
        ),
        (
            {"name": "p", "kind": "bars", "measure": "log_loss", "by": "data", "where": "a"},
            "where must be a table",
        ),
    ],
)
def test_options_without_meaning_are_refused(entry, words):
    with pytest.raises(RecipeError, match=words):
        PictureOptions.parse(entry, ["log_loss"])


def test_every_kind_is_known():
    assert set(BUILDERS) == set(KINDS) - {"probabilities", "fitted maps"}


# Drawing


@pytest.fixture
def several():
    pytest.importorskip("matplotlib")
    return noisy(data=["a", "b", "c"], rows=[50, 100, 200], calibrator=CALIBRATORS, repeat=[0, 1])


ENTRIES = [
    {"kind": "critical-difference", "measure": "log_loss"},
    {"kind": "lines", "x": "rows", "measure": "log_loss", "band": "sd", "log_x": True},
    {"kind": "bars", "measure": "log_loss", "by": "data", "series": "calibrator", "band": "sd"},
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["kind"])
def test_a_picture_comes_out_the_same_every_time(several, entry):
    options = PictureOptions.parse({"name": "picture", **entry})
    first, second = draw_picture(several, options), draw_picture(several, options)
    assert first.drawings["picture"].startswith(b"<?xml")
    assert first.drawings == second.drawings
    assert b"<dc:date>" not in first.drawings["picture"]
    assert len(list(csv.DictReader(StringIO(first.numbers["picture"])))) > 2


def overlapping(labels):
    """Return the pairs of texts of which one lies over the other."""
    boxes = [(label.get_text(), label.get_window_extent()) for label in labels if label.get_text()]
    return [(a, b) for k, (a, one) in enumerate(boxes) for b, two in boxes[:k] if one.overlaps(two)]


@pytest.mark.parametrize("n_groups", [2, 7, 12, 30])
@pytest.mark.parametrize("length", [3, 12, 24])
@pytest.mark.parametrize("n_series", [1, 4])
def test_names_of_bars_do_not_overlap(n_groups, length, n_series):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    names = [f"{number}".ljust(length, "m") for number in range(n_groups)]
    values = {f"series {k}": np.linspace(0.1, 1, n_groups) for k in range(n_series)}
    display = BarsDisplay(names, values, label_groups="data", label_values="log loss").plot()
    display.figure_.canvas.draw()
    axis = display.ax_.yaxis if display.ax_.yaxis_inverted() else display.ax_.xaxis
    labels = axis.get_ticklabels()
    assert [label.get_text() for label in labels] == names
    upright = [label for label in labels if label.get_rotation() == 0]
    assert not overlapping(upright)
    for label in labels:  # none is cut off
        box = label.get_window_extent()
        assert box.x0 >= 0
        assert box.y0 >= 0
    pyplot.close(display.figure_)


@pytest.mark.parametrize("places", [[50, 100, 200], [1, 2, 3, 1000], list(range(40)), [0.001, 0.1, 10]])
@pytest.mark.parametrize("log_x", [False, True])
def test_numbers_below_lines_do_not_overlap(places, log_x):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    results = noisy(rows=places, calibrator=CALIBRATORS, data=["a"])
    entry = {"name": "p", "kind": "lines", "x": "rows", "measure": "log_loss", "log_x": log_x}
    display = BUILDERS["lines"](results, PictureOptions.parse(entry)).displays[""].plot()
    assert isinstance(display, LinesDisplay)
    display.figure_.canvas.draw()
    assert not overlapping(display.ax_.get_xticklabels())
    pyplot.close(display.figure_)


def test_without_matplotlib_the_numbers_are_there_and_a_note_says_why(several, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    drawn = draw_picture(several, PictureOptions.parse({"name": "picture", **ENTRIES[1]}))
    assert drawn.drawings == {"picture": None}
    assert drawn.numbers["picture"].startswith("series,x,mean,sd,n_units\n")
    assert drawn.notes[-1].startswith("Not drawn: matplotlib is required")


def test_no_figure_stays_open(several):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = pyplot.get_fignums()
    svg_of(built(several, **ENTRIES[1]).displays[""])
    assert pyplot.get_fignums() == before


def test_numbers_are_written_with_ten_digits():
    assert columns_text(noisy(data=["a"])).splitlines()[1].startswith("a,done,0.6369616873,")
