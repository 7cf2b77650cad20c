"""Files that are well-formed and whose content would hang a prediction, take too much memory or give no numbers."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from crafted_archives import assert_refused, edit_header, edit_member, members_of, npy_of, write_members

from calibrant import (
    HistogramBinning,
    IntraOrderPreserving,
    RandomCalibrationForest,
    TemperatureScaling,
    TopLabel,
    load,
    registry,
)
from calibrant.persistence import limits, validation
from calibrant.persistence.schema import MAX_HEADER_BYTES, MAX_HEADER_ITEMS

GENERATOR = np.random.default_rng(3)
ROWS = GENERATOR.dirichlet(np.ones(3), 200)
LABELS = (np.log(ROWS) / 3 + GENERATOR.gumbel(size=ROWS.shape)).argmax(axis=1)


def member_of(path: Path, attribute: str) -> str:
    header = json.loads(members_of(path)["header.json"])
    return f"array_{header['calibrator']['state'][attribute]['array']}.npy"


@pytest.fixture(params=[4, 32], ids=["sums", "bins"])
def forest(request, tmp_path):
    """A file with a forest of three trees, and the forest."""
    path = tmp_path / "forest.npz"
    fitted = RandomCalibrationForest(n_trees=3, n_bins=request.param, guard=False).fit(ROWS, LABELS)
    fitted.save(path)
    assert (load(path).predict_proba(ROWS) == fitted.predict_proba(ROWS)).all()
    return path, fitted


# Trees


def looped(children):
    children[0] = 0


def back(children):
    children[2, 0] = 1


def beyond(children):
    children[-1, 0] = 120


def no_such_bin(children):
    children[-1, 0] = -120


def twice(children):
    children[1] = children[0]


@pytest.mark.parametrize("edit", [looped, back, beyond, no_such_bin, twice])
def test_trees_that_are_none(forest, edit):
    path, fitted = forest
    children = fitted.children_.copy()
    edit(children)
    edit_member(path, member_of(path, "children_"), npy_of(children))
    assert_refused(path, "is damaged: RandomCalibrationForest has splits")


@pytest.mark.parametrize(
    ("attribute", "change", "reason"),
    [
        ("n_splits_", lambda old: old[::-1] + 1, "another number of splits"),
        ("n_splits_", lambda _: np.array([2**62, 2**62, 2**63 - 1]), "another number of splits"),
        ("n_splits_", lambda old: old[:0], "for each of one or more trees"),
        ("n_splits_", lambda old: -old, "for each of one or more trees"),
        ("split_classes_", lambda old: np.full_like(old, 3), "a class that it does not have"),
        ("split_classes_", lambda old: old[1:], "a class, a threshold and two children"),
        ("children_", lambda old: old.astype(float), "a class, a threshold and two children"),
        ("thresholds_", lambda old: old.reshape(-1, 1), "a class, a threshold and two children"),
        ("thresholds_", lambda old: np.full_like(old, np.nan), "thresholds_ of .* has numbers that are not"),
    ],
)
def test_forests_that_make_no_sense(forest, attribute, change, reason):
    path, fitted = forest
    edit_member(path, member_of(path, attribute), npy_of(change(getattr(fitted, attribute))))
    assert_refused(path, f"is damaged: .*{reason}")


def test_bins_that_no_tree_has(forest):
    path, fitted = forest
    name = "bins_" if fitted.bins_ is not None else "bin_sums_"
    wrong = getattr(fitted, name)[:, 1:] if name == "bin_sums_" else getattr(fitted, name) + 40
    edit_member(path, member_of(path, name), npy_of(np.ascontiguousarray(wrong)))
    assert_refused(path, f"is damaged: RandomCalibrationForest has {name}")


def test_a_forest_inside_another_calibrator_is_checked_too(tmp_path):
    path = tmp_path / "chain.npz"
    chain = registry.make("temperature+forest").set_params()
    chain.calibrators[1].set_params(n_trees=3, n_bins=4, guard=False)
    chain.fit(ROWS, LABELS).save(path)
    children = chain.calibrators_[1].children_.copy()
    children[0] = 0
    name = next(
        name
        for name, content in members_of(path).items()
        if name.endswith(".npy") and content.endswith(chain.calibrators_[1].children_.tobytes())
    )
    edit_member(path, name, npy_of(children))
    assert_refused(path, "is damaged: RandomCalibrationForest has splits that lead back")


# Numbers


def arrays_that_predictions_need(node):
    """Yield the numbers of arrays in a header, but for those in dicts, which are tables about the fit."""
    if isinstance(node, list):
        for part in node:
            yield from arrays_that_predictions_need(part)
    elif isinstance(node, dict) and set(node) == {"array"}:
        yield node["array"]
    elif isinstance(node, dict) and set(node) != {"dict"}:
        for part in node.values():
            yield from arrays_that_predictions_need(part)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["isotonic", "vector", "width-binning", "kernel-rbf", "spline"])
def test_numbers_that_are_not_finite(name, value, tmp_path):
    """The last number of each fitted array in turn, which the probe may never look at."""
    path = tmp_path / "calibrator.npz"
    registry.make(name).fit(ROWS, LABELS).save(path)
    members = members_of(path)
    calibrator = json.loads(members["header.json"])["calibrator"]
    needed = [f"array_{number}.npy" for number in arrays_that_predictions_need(calibrator)]
    reals = [member for member in needed if re.search(rb"'<f8'.*\([1-9]", members[member][:100])]
    assert reals
    for member in reals:
        write_members(path, {**members, member: members[member][:-8] + np.array(value).tobytes()})
        assert_refused(path, "is damaged: .* has numbers that are not finite")


def test_a_table_about_the_fit_may_hold_anything(tmp_path):
    path = tmp_path / "calibrator.npz"
    fitted = TemperatureScaling().fit(ROWS, LABELS)
    fitted.table_ = {"standard_error": np.array([np.nan, np.inf])}
    fitted.save(path)
    assert np.isnan(load(path).table_["standard_error"][0])


def test_attributes_in_which_such_numbers_have_a_meaning(tmp_path):
    path = tmp_path / "calibrator.npz"
    top = TopLabel(HistogramBinning(n_bins=2)).fit(ROWS, LABELS)
    assert np.isnan(top.constants_).any()
    ordered = IntraOrderPreserving().fit(ROWS, LABELS)
    for fitted in (top, ordered):
        fitted.save(path)
        assert (load(path).predict_proba(ROWS) == fitted.predict_proba(ROWS)).all()


def test_a_class_says_where_such_numbers_have_a_meaning(tmp_path, monkeypatch):
    fitted = TemperatureScaling().fit(ROWS, LABELS)
    fitted.edges_ = np.array([-np.inf, 0.0, np.inf])
    path = tmp_path / "calibrator.npz"
    with pytest.raises(ValueError, match="edges_ of TemperatureScaling has numbers that are not finite"):
        fitted.save(path)
    monkeypatch.setattr(TemperatureScaling, "_non_finite_state", ("edges_",), raising=False)
    fitted.save(path)
    assert load(path).edges_[0] == -np.inf


def test_a_probe_of_what_is_no_number_proves_nothing(path):
    """NaN equals NaN when arrays are compared, so that a forged probe agreed with a forged map."""
    members = members_of(path)
    header = json.loads(members["header.json"])
    header["calibrator"]["state"]["inverse_temperature_"] = {"float": "7ff8000000000000"}
    outputs = f"array_{header['probe']['outputs']['array']}.npy"
    members[outputs] = npy_of(np.full((5, 2), np.nan))
    members["header.json"] = json.dumps(header).encode()
    write_members(path, members)
    assert_refused(path, "the probe must be 1 to 8 rows of 2 numbers")
    header["probe"]["outputs"] = None
    del members[outputs]
    members["header.json"] = json.dumps(header).encode()
    write_members(path, members)
    assert_refused(path, "does not predict probabilities")


# Time and memory


def test_a_prediction_that_never_ends_is_stopped(path, monkeypatch):
    def never(self, X):
        while True:
            pass

    monkeypatch.setattr(validation, "SECONDS", 0.2)
    monkeypatch.setattr(limits, "REPEAT_SECONDS", 0.1)
    monkeypatch.setattr(TemperatureScaling, "predict_proba", never)
    assert_refused(path, "the calibrator in it takes more than 0 seconds for 5 rows")


def test_a_check_of_ones_own_may_fail_in_any_way(path, monkeypatch):
    def fails(self):
        raise KeyError("absent")

    monkeypatch.setattr(TemperatureScaling, "_check_fitted", fails, raising=False)
    assert_refused(path, "the state of TemperatureScaling is invalid .KeyError")


def peak_megabytes(path: Path) -> float:
    """Return how much memory loading a file takes at most, in a process of its own."""
    program = (
        "import resource, sys\n"
        "import calibrant, calibrant.persistence\n"
        "from calibrant import registry\n"
        "registry.calibrators()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    calibrant.load(sys.argv[1])\nexcept ValueError as error:\n    pass\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    return float(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="units of memory differ")
@pytest.mark.parametrize(
    "content", ["[],", *(pytest.param(other, marks=pytest.mark.slow) for other in ("{},", "0,", '"",'))]
)
def test_a_large_header_takes_little_memory(path, content):
    edit_header(path, lambda header: header["calibrator"]["state"].update(x_=[]))
    header = members_of(path)["header.json"].decode()
    for size in (MAX_HEADER_BYTES - 2**16, 3 * 10**7):
        text = "[" + content * (size // len(content)) + "0]"
        edit_member(path, "header.json", header.replace('"x_": []', f'"x_": {text}').encode())
        assert peak_megabytes(path) < 64
        assert_refused(path, "values in its header.json|but at most .* are read")


@pytest.mark.skipif(sys.platform != "linux", reason="units of memory differ")
def test_a_header_at_its_limits_takes_bounded_memory(path):
    edit_header(path, lambda header: header["calibrator"]["state"].update(x_=[]))
    text = members_of(path)["header.json"].decode()
    many = "[" + "[]," * (MAX_HEADER_ITEMS // 2 - 1000) + "0]"
    edit_member(path, "header.json", text.replace('"x_": []', f'"x_": {many}').encode())
    assert peak_megabytes(path) < 200


def test_headers_of_many_classes_are_far_from_the_limit(tmp_path):
    path = tmp_path / "calibrator.npz"
    K = 40
    rows = GENERATOR.dirichlet(np.ones(K), 4 * K)
    registry.make("piecewise-linear").fit(rows, np.arange(4 * K) % K).save(path)
    header = members_of(path)["header.json"]
    assert len(header) / K * 10_000 < MAX_HEADER_BYTES
    assert sum(map(header.count, (b",", b"[", b"{"))) / K * 10_000 < MAX_HEADER_ITEMS


def test_a_directory_of_many_members_is_not_read(path):
    entry = b"PK\x01\x02" + bytes(42)
    directory = entry * (2**24 // len(entry) + 2)
    end = b"PK\x05\x06" + bytes(6) + b"\xff\xff" + len(directory).to_bytes(4, "little")
    start = path.read_bytes()
    path.write_bytes(start + directory + end + len(start).to_bytes(4, "little") + bytes(2))
    assert_refused(path, "has a directory of .* bytes, but at most")


# Other things than files


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes in the file system")
def test_a_pipe_is_refused_at_once(tmp_path):
    """Opening it would wait for somebody to write."""
    os.mkfifo(tmp_path / "pipe")
    assert_refused(tmp_path / "pipe", "is not a regular file but a pipe or a device")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a device without end")
def test_a_device_without_end_is_refused():
    assert_refused(Path("/dev/zero"), "is not a regular file")


def test_a_folder_is_what_python_says(tmp_path):
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
