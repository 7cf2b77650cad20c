"""Warnings reach the user once, with a count where there were many, at the line of the user's own call."""

import inspect
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from calibrant import OneVsRest, Predictions, TemperatureScaling
from calibrant.errors import CalibrationWarning, ConvergenceWarning, MissingClassWarning
from calibrant.notices import gathered, warn_user
from calibrant.numerics.row_blocks import in_threads


def everything(action="always"):
    return warnings.catch_warnings(record=True, action=action)


def inside_the_package(function):
    """Return the function as if a module of the package had defined it."""
    namespace = {"__name__": "calibrant.somewhere.deep", "function": function}
    exec("def ours(*arguments):\n    return function(*arguments)", namespace)
    return namespace["ours"]


def line_here():
    return inspect.currentframe().f_back.f_lineno


# One warning


def test_a_warning_points_at_the_line_outside_the_package():
    deep = inside_the_package(inside_the_package(warn_user))
    with everything() as seen:
        line = line_here() + 1
        deep("words.", CalibrationWarning)
    assert [(item.filename, item.lineno) for item in seen] == [(__file__, line)]
    assert str(seen[0].message) == "words."
    assert seen[0].category is CalibrationWarning


def test_a_package_whose_name_only_begins_like_ours_is_outside():
    namespace = {"__name__": "calibrant_extras.module", "warn_user": warn_user}
    exec(compile("def theirs():\n    warn_user('words.', UserWarning)", "theirs.py", "exec"), namespace)
    with everything() as seen:
        namespace["theirs"]()
    assert [(item.filename, item.lineno) for item in seen] == [("theirs.py", 2)]


def test_a_warning_of_a_fit_points_at_the_fit():
    with everything() as seen:
        line = line_here() + 1
        TemperatureScaling().fit([[0.6, 0.4], [0.4, 0.6]], [0, 1])
    assert [(item.filename, item.lineno) for item in seen] == [(__file__, line)]


def test_a_warning_without_any_frame_outside_is_still_given():
    """In a thread of the package itself there may be nobody else to point at."""
    with everything() as seen:
        thread = threading.Thread(target=inside_the_package(warn_user), args=("words.", CalibrationWarning))
        thread.start()
        thread.join()
    assert [str(item.message) for item in seen] == ["words."]


# Many warnings


def test_like_warnings_are_given_once_with_their_number():
    with everything() as seen, gathered(5, "fit"):
        for _ in range(3):
            warn_user("too few rows.", CalibrationWarning)
        warn_user("too few rows.", ConvergenceWarning)
        warn_user("stopped early.", ConvergenceWarning)
    assert [(str(item.message), item.category) for item in seen] == [
        ("too few rows (3 of 5 fits).", CalibrationWarning),
        ("too few rows (1 of 5 fits).", ConvergenceWarning),
        ("stopped early (1 of 5 fits).", ConvergenceWarning),
    ]


def test_no_warnings_give_none():
    with everything() as seen, gathered(5, "fit"):
        pass
    assert seen == []


def test_gathered_warnings_point_at_the_line_outside_the_package():
    """The context manager stands between; the user wrote neither it nor what is inside."""

    def many_fits():
        namespace["many"]()

    source = "def many():\n    with gathered(2, 'fit'):\n        warn_user('words.', UserWarningOfOurs)"
    namespace = {"__name__": "calibrant.somewhere", "gathered": gathered, "warn_user": warn_user}
    namespace["UserWarningOfOurs"] = CalibrationWarning
    exec(source, namespace)
    with everything() as seen:
        many_fits()
    assert [item.filename for item in seen] == [__file__]
    assert seen[0].lineno == inspect.getsourcelines(many_fits)[1] + 1


def test_warnings_of_others_pass_unchanged():
    """Their text, category and place are not ours to rewrite."""
    with everything() as seen, gathered(2, "fit"):
        warnings.warn_explicit("numbers.", RuntimeWarning, "elsewhere.py", 7)
        warnings.warn_explicit("numbers.", RuntimeWarning, "elsewhere.py", 7)
    assert [(str(item.message), item.category) for item in seen] == [("numbers.", RuntimeWarning)] * 2
    assert [(item.filename, item.lineno) for item in seen] == [("elsewhere.py", 7)] * 2


def test_filters_of_the_user_apply_to_what_is_gathered():
    told = pytest.raises(CalibrationWarning, match=r"words \(1 of 2 fits\)\.")
    with everything("error"), told, gathered(2, "fit"):
        warn_user("words.", CalibrationWarning)
    with everything("ignore") as seen, gathered(2, "fit"):
        warn_user("words.", CalibrationWarning)
    assert seen == []


def test_an_error_inside_goes_through_and_filters_are_restored():
    before = warnings.filters[:]
    with everything(), pytest.raises(ZeroDivisionError), gathered(2, "fit"):
        raise ZeroDivisionError
    assert warnings.filters == before


def test_warnings_from_threads_are_gathered_too():
    with everything() as seen, gathered(8, "fit"):
        in_threads(lambda _: warn_user("words.", CalibrationWarning), range(8), numbers=10**6)
    assert [str(item.message) for item in seen] == ["words (8 of 8 fits)."]


def test_fits_in_threads_of_the_user_leave_the_filters_alone():
    """Each thread gathers for itself, and nothing of the process is changed on the way."""

    def fit_and_warn(_):
        with gathered(2, "fit"):
            warn_user("words.", CalibrationWarning)

    with everything() as seen:
        before = warnings.filters[:]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(fit_and_warn, range(40)))
        assert warnings.filters == before
        assert [str(item.message) for item in seen] == ["words (1 of 2 fits)."] * 40


# Through a calibrator


def all_right(n_rows, n_classes):
    """Return rows whose larger probability is always right, for every class against the rest."""
    labels = np.arange(n_rows) % n_classes
    return 0.9 * np.eye(n_classes)[labels] + 0.1 / n_classes, labels


@pytest.mark.parametrize("n_threads", ["1", "3"])
@pytest.mark.parametrize("n_rows", [30, 70_000])
def test_a_fit_for_every_class_warns_once_at_the_users_line(monkeypatch, n_threads, n_rows):
    """All three temperatures run to the edge: one warning, not three; also from threads."""
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", n_threads)
    X, y = all_right(n_rows, 3)
    with everything() as seen:
        line = line_here() + 1
        OneVsRest(TemperatureScaling()).fit(X, y)
    assert [item.category for item in seen] == [ConvergenceWarning]
    assert "edge of the allowed range" in str(seen[0].message)
    assert str(seen[0].message).endswith("(3 of 3 one-vs-rest fits).")
    assert (seen[0].filename, seen[0].lineno) == (__file__, line)


def test_absent_classes_are_named_once_however_many_fits_follow():
    X, y = np.random.default_rng(0).dirichlet(np.ones(4), 60), np.arange(60) % 3
    with everything() as seen:
        line = line_here() + 1
        OneVsRest(TemperatureScaling()).fit(Predictions.from_probabilities(X), y)
    missing = [item for item in seen if item.category is MissingClassWarning]
    assert [(item.filename, item.lineno) for item in missing] == [(__file__, line)]


def test_a_loop_of_fits_warns_at_each_of_its_lines():
    """By default Python shows a warning once for each line; another line of the user is another one."""
    X, y = all_right(30, 3)
    with everything("default") as seen:
        OneVsRest(TemperatureScaling()).fit(X, y)
        OneVsRest(TemperatureScaling()).fit(X, y)
    assert len({item.lineno for item in seen}) == len(seen) == 2
