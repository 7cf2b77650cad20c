"""Files that were made to do harm, or by something else: each is refused with a sentence that says why."""

import io
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from crafted_archives import (
    assert_refused,
    edit_header,
    edit_member,
    members_of,
    npy,
    npy_of,
    three_of_four,
)

from calibrant import load
from calibrant.errors import FileFormatError

# Other files


def test_a_missing_file_is_what_python_says(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"p,q\n0.1,0.9\n", "is not a zip archive"),
        (pickle.dumps([1]), "is a Python pickle, which can run code and is never read"),
        (npy_of(np.zeros(3)), "is not a zip archive"),
        (b"PK\x03\x04", "is damaged: it begins as a zip archive, but its end is missing"),
        (b"PK\x03\x04" + bytes(100), "is damaged: it begins as a zip archive"),
    ],
)
def test_a_file_of_another_kind(content, reason, path):
    path.write_bytes(content)
    assert_refused(path, reason)


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_an_npz_of_data(write, path):
    write(path, logits=np.zeros((3, 2)))
    assert_refused(path, "is a zip archive without header.json, so it is not a file that Calibrator.save")


def test_a_newer_schema(path):
    edit_header(path, lambda header: header.update(schema_version=7, surprise=1))
    assert_refused(
        path, r"was written by a newer calibrant \(schema 7; this version reads 2\); upgrade calibrant\.$"
    )


def test_a_newer_schema_is_told_even_if_the_archive_has_changed_too(path):
    edit_header(path, lambda header: header.update(schema_version=3))
    edit_member(path, "weights.safetensors", b"")
    assert_refused(path, "was written by a newer calibrant")


# Code


class Payload:
    """Unpickling it creates a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def object_npy(payload):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.array([payload], dtype=object), version=(1, 0), allow_pickle=True)
    return stream.getvalue()


@pytest.fixture
def marker(tmp_path):
    """A path that a live payload creates, as is shown here first."""
    marker = tmp_path / "marker"
    pickle.loads(pickle.dumps(Payload(marker)))
    assert marker.exists()
    marker.unlink()
    return marker


def test_an_array_of_pickled_objects_is_not_unpickled(path, marker):
    edit_member(path, "array_0.npy", object_npy(Payload(marker)))
    assert_refused(path, "holds array_0.npy, which holds pickled Python objects; calibrant never reads those")
    assert not marker.exists()


def test_a_pickle_disguised_as_numbers_is_only_numbers(path, marker):
    data = pickle.dumps(Payload(marker))
    edit_member(path, "array_0.npy", npy("'|u1'", f"({len(data)},)", data))
    with pytest.raises(FileFormatError):
        load(path)
    assert not marker.exists()


def test_a_pickle_as_the_whole_file_is_not_unpickled(path, marker):
    path.write_bytes(pickle.dumps(Payload(marker)))
    assert_refused(path, "pickle")
    assert not marker.exists()


def test_an_npy_header_is_not_evaluated(path):
    edit_member(path, "array_0.npy", npy("__import__('os').abort()", "(2,)", bytes(16)))
    assert_refused(path, "array_0.npy, of the type .* which is not allowed")


@pytest.mark.parametrize("name", ["Popen", "object", "Calibrator", "", "os.system", "a" * 5000])
def test_an_unknown_class(name, path):
    edit_header(path, lambda header: header["calibrator"].update({"class": name}))
    assert_refused(path, "holds a calibrator of the class '.*', which is not known here; upgrade calibrant")


@pytest.mark.parametrize("name", ["__class__", "__dict__", "_fit_", "fit", "", "A_", "a_\n", "predict", "é_"])
def test_a_name_that_is_no_fitted_attribute(name, path):
    edit_header(path, lambda header: header["calibrator"]["state"].update({name: 1}))
    assert_refused(path, "cannot be a fitted attribute of TemperatureScaling")


@pytest.mark.parametrize("name", ["__class__", "self", "solution_", "temperature"])
def test_a_name_that_is_no_parameter(name, path):
    edit_header(path, lambda header: header["calibrator"]["parameters"].update({name: 1}))
    assert_refused(path, r"TemperatureScaling has no parameters \[")


def test_a_parameter_without_default_is_missing(path):
    edit_header(path, lambda header: header["calibrator"].update({"class": "Chain", "parameters": {}}))
    assert_refused(path, r"the parameters \['calibrators'\] of Chain are missing")


def test_a_parameter_that_the_writer_did_not_know_gets_its_default(path):
    edit_header(path, lambda header: header["calibrator"]["parameters"].pop("bounds"))
    assert load(path).bounds == (1e-3, 1e3)


# The header


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "header.json is not valid JSON"),
        (b"\xff\xfe", "header.json is not valid JSON"),
        (b'{"format": ', "header.json is not valid JSON"),
        (b'{"format": 1, "format": 2}', "header.json is not valid JSON"),
        (b'{"format": NaN}', "header.json is not valid JSON"),
        (b"[" * 200_000 + b"]" * 200_000, "header.json is not valid JSON"),
        (b'{"format": ' + b"9" * 10_000 + b"}", "header.json is not valid JSON"),
        (b"[]", "names another format"),
        (b"{}", "names another format"),
        (b'{"format": "safetensors"}', "names another format"),
    ],
    ids=lambda value: value[:12].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_a_header_that_is_not_ours(text, reason, path):
    edit_member(path, "header.json", text)
    assert_refused(path, reason)


def deep(levels):
    node = 1
    for _ in range(levels):
        node = {"tuple": [node]}
    return node


def in_state(value):
    return lambda header: header["calibrator"]["state"].update(example_=value)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda h: h.update(schema_version="1"), "the schema version '1' is invalid"),
        (lambda h: h.update(schema_version=True), "the schema version True is invalid"),
        (lambda h: h.update(schema_version=0), "the schema version 0 is invalid"),
        (lambda h: h.pop("schema_version"), "the schema version None is invalid"),
        (lambda h: h.pop("library_version"), "the header must have the keys"),
        (lambda h: h.update(extra=1), "the header must have the keys"),
        (lambda h: h.update(library_version=1), "the library version must be text"),
        (lambda h: h.update(calibrator=[]), "a calibrator must have a class, parameters and a state"),
        (lambda h: h["calibrator"].update(more=1), "a calibrator must have a class, parameters and a state"),
        (lambda h: h["calibrator"].update({"class": 1}), "the class of a calibrator must be text"),
        (lambda h: h["calibrator"].update(parameters=[]), "parameters of 'TemperatureScaling' must be"),
        (lambda h: h["calibrator"].update(state=None), "state of 'TemperatureScaling' must be"),
        (lambda h: h.update(probe=None), "the probe must have inputs and outputs"),
        (lambda h: h["probe"].update(extra=1), "the probe must have inputs and outputs"),
        (in_state({}), "a value must have one kind"),
        (in_state({"tuple": [], "dict": {}}), r"a value must have one kind, not \['dict', 'tuple'\]"),
        (in_state({"eval": "1"}), "'eval' is not a kind of value"),
        (in_state({"tuple": 1}), "a tuple must be a list of values"),
        (in_state({"dict": [1]}), "a dict must be a JSON object"),
        (in_state({"pairs": {}}), "the pairs of a dict must be a list"),
        (in_state({"pairs": [1]}), "a key and its value must be a list of two"),
        (in_state({"pairs": [[1, 2, 3]]}), "a key and its value must be a list of two"),
        (in_state({"pairs": [[None, 2]]}), "None cannot be a key of a dict"),
        (in_state({"pairs": [[[1], 2]]}), "cannot be a key of a dict"),
        (in_state({"pairs": [[{"tuple": [1]}, 2]]}), "cannot be a key of a dict"),
        (in_state({"pairs": [[{"float": "7ff8000000000000"}, 2]]}), "cannot be a key of a dict"),
        (in_state({"pairs": [[{"scalar": ["<f4", "0000c07f"]}, 2]]}), "cannot be a key of a dict"),
        (in_state({"pairs": [[2**61 * (2**61 - 1), 2]]}), "cannot be a key of a dict"),
        (in_state({"pairs": [[1, 2], [True, 3]]}), "the key True occurs twice"),
        (in_state({"pairs": [[1, {"eval": 1}]]}), "'eval' is not a kind of value"),
        (in_state({"array": -1}), "an array must be referred to by its number"),
        (in_state({"array": True}), "an array must be referred to by its number"),
        (in_state({"array": "0"}), "an array must be referred to by its number"),
        (in_state({"array": 0}), "some arrays are referred to twice or never"),
        (in_state({"array": 10**30}), "is missing"),
        (in_state({"float": "00"}), "is not a number of 8 bytes"),
        (in_state({"float": 1.0}), "is not a number of 8 bytes"),
        (in_state({"numpy_text": 1}), "numpy text must be text"),
        (in_state({"scalar": ["<f8"]}), "a numpy scalar must be a list of two"),
        (in_state({"scalar": ["|O", "00"]}), "'|O' is not a scalar type"),
        (in_state({"scalar": ["<U2", "00"]}), "'<U2' is not a scalar type"),
        (in_state({"scalar": [8, "00"]}), "8 is not a scalar type"),
        (in_state({"scalar": ["<f8", "00"]}), "'00' is not a number of 8 bytes"),
        (in_state({"scalar": ["|b1", "07"]}), "a numpy scalar which has booleans"),
        (in_state({"member": ["Status"]}), "a member of an enumeration must be a list of two"),
        (in_state({"member": ["Color", "RED"]}), "'Color' is not an enumeration"),
        (in_state({"member": ["Status", "FINE"]}), "Status has no member 'FINE'"),
        (in_state({"member": ["Status", "__class__"]}), "Status has no member '__class__'"),
        (in_state({"record": ["Popen", {}]}), "'Popen' is not a kind of record"),
        (in_state({"record": ["Solution", {}]}), "the parts of a Solution must be"),
        (in_state({"record": ["Solution", []]}), "the parts of a Solution must be"),
        (in_state({"record": [["Solution"], {}]}), "is not a kind of record"),
        (in_state({"calibrator": {}}), "a calibrator must have"),
        (in_state(deep(65)), "values are nested more than 64 deep"),
        (in_state(deep(150)), "values are nested more than 64 deep"),
    ],
)
def test_a_header_with_nonsense_in_it(edit, reason, path):
    edit_header(path, edit)
    assert_refused(path, f"is damaged: .*{reason}")


def test_a_key_of_infinite_size(path):
    """JSON knows no infinity, but readers make one of 1e400."""
    edit_header(path, in_state({"pairs": [["KEY", 2]]}))
    text = members_of(path)["header.json"].replace(b'"KEY"', b"1e400")
    edit_member(path, "header.json", text)
    assert_refused(path, "inf cannot be a key of a dict")


def test_a_part_of_a_record_that_does_not_exist(path):
    edit_header(path, lambda h: h["calibrator"]["state"]["solution_"]["record"][1].update(more=1))
    assert_refused(path, "the parts of a Solution must be")


def swap_classes_with(other):
    return lambda state: state.update({"classes_": state[other], other: state["classes_"]})


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (
            lambda state: state.update(temperature_=3.0, inverse_temperature_=1 / 3),
            "does not reproduce the predictions",
        ),
        (lambda state: state.update(inverse_temperature_=0.50001), "does not reproduce the predictions"),
        (
            lambda state: state.update(inverse_temperature_={"float": "7ff8000000000000"}),
            "does not predict probabilities",
        ),
        (lambda state: state.update(inverse_temperature_="half"), "does not predict .ValueError"),
        (lambda state: state.pop("inverse_temperature_"), "does not predict .AttributeError"),
        (lambda state: state.update(present_columns_=[17]), "present_columns_ of TemperatureScaling must be"),
        (lambda state: state.update(floor_="x"), "does not predict"),
        (lambda state: state.update(space_="images"), "space_ is 'images'"),
        (lambda state: state.update(space_=[]), r"space_ is \[\]"),
        (lambda state: state.pop("space_"), "space_ is None"),
        (swap_classes_with("three_"), "the probe must be 1 to 8 rows of 3 numbers"),
        (swap_classes_with("one_"), "classes_ must be two or more different labels"),
        (swap_classes_with("same_"), "classes_ must be two or more different labels"),
        (swap_classes_with("reals_"), "classes_ must be two or more different labels"),
        (swap_classes_with("floor_"), "classes_ must be two or more different labels"),
    ],
)
def test_a_state_that_does_not_predict_as_before(edit, reason, tmp_path):
    path = tmp_path / "calibrator.npz"
    calibrator = three_of_four()
    calibrator.three_, calibrator.one_ = np.arange(3), np.arange(1)
    calibrator.same_, calibrator.reals_ = np.zeros(2, int), np.zeros(2)
    calibrator.save(path)
    edit_header(path, lambda header: edit(header["calibrator"]["state"]))
    assert_refused(path, f"is damaged: .*{reason}")


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((5, 3)),
        np.zeros((9, 2)),
        np.zeros((0, 2)),
        np.zeros(2),
        np.array(1.0),
        np.zeros((5, 2), dtype=int),
        np.array([["a", "b"]] * 5),
    ],
    ids=lambda rows: f"{rows.dtype.str}{rows.shape}",
)
@pytest.mark.parametrize("part", ["inputs", "outputs"])
def test_a_probe_of_the_wrong_shape_or_type(part, rows, path):
    number = json.loads(members_of(path)["header.json"])["probe"][part]["array"]
    edit_member(path, f"array_{number}.npy", npy_of(rows))
    assert_refused(path, "is damaged: the probe must be 1 to 8 rows of 2 numbers")
