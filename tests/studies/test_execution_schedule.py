"""The schedule trains every classifier once and before its units."""

import threading
import time
import warnings
from types import SimpleNamespace

import pytest
from study_folders import GRID, write_study

from calibrant.studies import plan, read_recipe
from calibrant.studies.execution import Schedule
from calibrant.studies.units import Pause, TimeIsUpError, Training, UnitTask, counted_warnings, limited


def nothing_is_there(key):
    return False


def all_is_there(key):
    return True


@pytest.fixture
def units(tmp_path):
    """36 units of 12 trainings: two sets, two classifiers, three folds."""
    text = GRID.replace("repeats = 2", "repeats = 1")
    return plan(read_recipe(write_study(tmp_path / "study", text))).units


def test_one_worker_trains_and_then_runs_the_units(units):
    schedule = Schedule(units, nothing_is_there)
    order = []
    for task in schedule.tasks():
        order.append(type(task))
        schedule.finished(task)
    assert order == [Training, UnitTask, UnitTask, UnitTask] * 12
    assert schedule.lost() == []


def test_outputs_that_are_there_are_not_made_again(units):
    schedule = Schedule(units, all_is_there)
    assert [type(task) for task in schedule.tasks()] == [UnitTask] * 36


def test_no_unit_comes_before_its_training_has_ended_whatever_the_order(units):
    """Five workers, of which the one that began last ends first."""
    schedule = Schedule(units, nothing_is_there)
    tasks = schedule.tasks()
    under_way, trained, run = [], [], []
    while True:
        while len(under_way) < 5 and (task := next(tasks, None)) is not None:
            if isinstance(task, UnitTask):
                assert task.work.training in trained
            if not isinstance(task, Pause):
                under_way.append(task)
            elif len(under_way) > 0:
                break
        if not under_way:
            break
        task = under_way.pop()
        schedule.finished(task)
        (trained if isinstance(task, Training) else run).append(task.key)
    assert len(trained) == len(set(trained)) == 12
    assert sorted(run) == sorted(unit.key for unit in units)


def test_workers_pause_while_the_last_training_is_under_way(units):
    schedule = Schedule(units[:3], nothing_is_there)
    tasks = schedule.tasks()
    training = next(tasks)
    assert isinstance(training, Training)
    assert [next(tasks), next(tasks)] == [Pause(), Pause()]
    schedule.finished(training)
    assert [type(task) for task in tasks] == [UnitTask] * 3


def test_a_training_that_fails_gives_its_units_back(units):
    schedule = Schedule(units[:3], nothing_is_there)
    tasks = schedule.tasks()
    assert schedule.finished(next(tasks), failed=True) == list(units[:3])
    assert list(tasks) == []


def test_what_was_given_out_and_has_not_ended_is_lost(units):
    schedule = Schedule(units, all_is_there)
    tasks = schedule.tasks()
    first, second = next(tasks), next(tasks)
    schedule.finished(first)
    assert schedule.lost() == [second]


def test_the_first_repeat_comes_first(tmp_path):
    units = plan(read_recipe(write_study(tmp_path / "study", GRID))).units
    schedule = Schedule(units, all_is_there)
    repeats = [task.work.request.split.repeat for task in schedule.tasks()]
    assert repeats == [0] * 36 + [1] * 36


def test_the_first_fold_comes_first_and_in_it_the_smallest_and_the_largest_set():
    sizes = {"b": (300, 3), "a": (200, 3), "d": (900, 2), "e": (400, 9), "made": None}
    units = [
        SimpleNamespace(key=f"{name}{fold}", labels={"data": name, "repeat": 0, "fold": fold}, work=None)
        for name in sizes
        for fold in range(2)
    ]
    units.append(SimpleNamespace(key="trial", labels={"trial": "one", "seed": 3}, work=None))
    order = [task.key for task in Schedule(units, nothing_is_there, sizes.get).tasks()]
    assert order == ["a0", "d0", "b0", "e0", "made0", "trial", "a1", "d1", "b1", "e1", "made1"]
    unknown = Schedule(units, nothing_is_there, {}.get)
    assert next(unknown.tasks()).key == "b0"


# Limits and warnings in threads


def in_thread(function):
    """Return what a function returns, or the error that it raises, in a thread of its own."""
    found = []

    def call():
        try:
            found.append(function())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return found[0]


def endless():
    with limited(0.05):
        while True:
            pass


def test_a_limit_holds_in_the_main_thread_and_in_others():
    with pytest.raises(TimeIsUpError):
        endless()
    assert isinstance(in_thread(endless), TimeIsUpError)


def test_waiting_takes_no_processor_time():
    def patient():
        with limited(0.2):
            time.sleep(0.4)
        return "done"

    assert patient() == "done"
    assert in_thread(patient) == "done"


def test_a_limit_ends_with_its_context():
    def busy():
        with limited(0.05):
            pass
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        return "done"

    assert busy() == "done"
    assert in_thread(busy) == "done"


def test_a_method_cannot_catch_that_its_time_is_up():
    def stubborn():
        with limited(0.05):
            while True:
                try:
                    while True:
                        pass
                except Exception:
                    continue

    assert isinstance(in_thread(stubborn), TimeIsUpError)
    with pytest.raises(TimeIsUpError):
        stubborn()


def swallowing():
    """Catch all that comes, and go on for some time."""
    with limited(0.05):
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            try:
                while time.thread_time() < end:
                    pass
            except:  # noqa: E722
                pass


def turning():
    """Make another error of it."""
    with limited(0.05):
        try:
            while True:
                pass
        except BaseException as error:
            raise ValueError("something else") from error


@pytest.mark.parametrize("work", [swallowing, turning])
def test_a_limit_that_was_caught_counts_all_the_same(work):
    assert isinstance(in_thread(work), TimeIsUpError)
    with pytest.raises(TimeIsUpError):
        work()


def test_a_limit_that_was_caught_comes_again(monkeypatch):
    for module in ("studies.units", "persistence.limits"):  # of the main thread, and of others
        monkeypatch.setattr(f"calibrant.{module}.REPEAT_SECONDS", 0.05)
    caught = []

    def stubborn():
        with limited(0.05):
            for _ in range(3):
                try:
                    while True:
                        pass
                except BaseException as error:
                    caught.append(type(error))

    assert isinstance(in_thread(stubborn), TimeIsUpError)
    with pytest.raises(TimeIsUpError):
        stubborn()
    assert caught == [TimeIsUpError] * 6


def test_each_thread_counts_its_own_warnings():
    barrier = threading.Barrier(2)

    def warned(category, times):
        with counted_warnings() as counts:
            barrier.wait()
            for _ in range(times):
                warnings.warn("beware", category, stacklevel=1)
            barrier.wait()
        return dict(counts)

    found = []
    other = threading.Thread(target=lambda: found.append(warned(UserWarning, 2)))
    other.start()
    mine = warned(RuntimeWarning, 3)
    other.join()
    assert (mine, found) == ({"RuntimeWarning": 3}, [{"UserWarning": 2}])
    with pytest.warns(UserWarning, match="shown again"):
        warnings.warn("shown again", UserWarning, stacklevel=1)
