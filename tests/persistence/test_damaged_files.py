"""Whatever happens to a file, load gives a calibrator or a FileFormatError, and nothing else."""

import json
import random
from copy import deepcopy

import numpy as np
import pytest
from crafted_archives import edit_member, members_of, three_of_four, write_members
from hypothesis import given
from hypothesis import strategies as st

from calibrant import Chain, TemperatureScaling, load
from calibrant.calibrator import Calibrator
from calibrant.errors import FileFormatError

SOUND = [[0.9, 0.1], [0.5, 0.5], [0.0, 1.0]]


def outcome(path):
    """Return the calibrator, or None if it was refused as it should be."""
    try:
        loaded = load(path)
    except FileFormatError:
        return None
    assert isinstance(loaded, Calibrator)
    return loaded


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "calibrator"
    three_of_four().save(path)
    return path


def test_a_file_cut_short_anywhere_is_refused(sound, tmp_path):
    content = sound.read_bytes()
    for length in [*range(0, len(content), 7), *range(len(content) - 120, len(content))]:
        (tmp_path / "cut").write_bytes(content[:length])
        assert outcome(tmp_path / "cut") is None, length


@pytest.mark.parametrize(
    "flip", [0xFF, pytest.param(0x01, marks=pytest.mark.slow), pytest.param(0x80, marks=pytest.mark.slow)]
)
def test_a_changed_byte_is_refused_or_makes_no_difference(flip, sound, tmp_path):
    """Dates, versions and attributes in the archive mean nothing; all else is needed or has a checksum."""
    content = sound.read_bytes()
    expected = three_of_four().predict_proba(SOUND)
    harmless = 0
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= flip
        (tmp_path / "changed").write_bytes(changed)
        loaded = outcome(tmp_path / "changed")
        if loaded is not None:
            harmless += 1
            assert np.array_equal(loaded.predict_proba(SOUND), expected)
            assert loaded.classes_.tolist() == ["bee", "cat"]
    assert 0 < harmless < len(content) / 5


@given(seed=st.integers(0, 2**32), n_changes=st.integers(1, 40))
def test_bytes_changed_moved_and_lost_at_random(seed, n_changes, sound, tmp_path_factory):
    generator = random.Random(seed)
    content = bytearray(sound.read_bytes())
    for _ in range(n_changes):
        start = generator.randrange(len(content))
        match generator.randrange(4):
            case 0:
                content[start] = generator.randrange(256)
            case 1:
                del content[start : start + generator.randrange(20)]
            case 2:
                content[start:start] = generator.randbytes(generator.randrange(20))
            case _:
                content[start:start] = content[-generator.randrange(1, 100) :]
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(content)
    outcome(path)


def test_a_changed_byte_with_a_correct_checksum(sound, tmp_path):
    """As a forger would do it; this reaches the JSON and npy readers and the probe."""
    members = members_of(sound)
    generator = random.Random(0)
    path = tmp_path / "forged"
    refused = 0
    for name, content in members.items():
        for position in range(len(content)):
            changed = bytearray(content)
            changed[position] = generator.choice(b'0129-"[]{},:_eE\\\x00\xff')
            write_members(path, {**members, name: bytes(changed)})
            refused += outcome(path) is None
    assert refused > 500


ODD_NODES = [
    *[None, True, -1, 0, 10**400, 1e308, "", "x", "\ud800", [], [[]], {}, {"x": 1}],
    *[{"array": 0}, {"array": 99}, {"tuple": []}, {"dict": {"a": 1}}, {"float": "7ff0000000000000"}],
    *[{"scalar": ["<f8", "00" * 8]}, {"member": ["Status", "CONVERGED"]}, {"numpy_text": ""}],
    {"calibrator": {"class": "Identity", "parameters": {}, "state": {}}},
]


def places(node, place=()):
    """Yield the way to every node of a JSON tree."""
    yield place
    if isinstance(node, dict | list):
        for key, inner in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(inner, (*place, key))


def with_replacement(tree, place, value):
    if not place:
        return value
    tree = deepcopy(tree)
    node = tree
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    return tree


def test_every_part_of_a_header_replaced_by_something_odd(tmp_path):
    path = tmp_path / "forged"
    Chain([TemperatureScaling()]).fit([[0.9, 0.1]] * 4, [0, 0, 0, 1]).save(path)
    header = json.loads(members_of(path)["header.json"])
    refused = 0
    for place in places(header):
        for value in ODD_NODES:
            edit_member(path, "header.json", json.dumps(with_replacement(header, place, value)).encode())
            refused += outcome(path) is None
    assert refused > 500
