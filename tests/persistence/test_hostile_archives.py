"""Archives and arrays that are not what they say: refused before anything is allocated for them."""

import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from crafted_archives import (
    assert_refused,
    directory_entry,
    edit_header,
    edit_member,
    end_record,
    local_header,
    members_of,
    npy,
    npy_of,
    write_members,
)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "which is not an array in npy format 1.0"),
        (b"\x93NUMPY\x01", "which is not an array in npy format 1.0"),
        (npy("'<f8'", "(2,)", bytes(16), version=2), "which is not an array in npy format 1.0"),
        (npy("'<f8'", "(2,)", bytes(16))[:20], "whose npy header is not one that numpy writes"),
        (npy("'<f8'", "2", bytes(16)), "whose npy header is not one that numpy writes"),
        (npy("'<f8'", "(-2,)", bytes(16)), "whose npy header is not one that numpy writes"),
        (npy("'<f8'", "(" * 3000 + ")" * 3000, b""), "whose npy header is not one that numpy writes"),
        (npy("'|O'", "(2,)", bytes(16)), "pickled Python objects"),
        (npy("[('a', '|O')]", "(2,)", bytes(16)), "pickled Python objects"),
        (npy("[('a', '<f8')]", "(2,)", bytes(16)), "which is not allowed"),
        (npy("'<c16'", "(1,)", bytes(16)), "of the type '<c16', which is not allowed"),
        (npy("'<f16'", "(1,)", bytes(16)), "of the type '<f16', which is not allowed"),
        (npy("'<M8[ns]'", "(2,)", bytes(16)), "which is not allowed"),
        (npy("'|V8'", "(2,)", bytes(16)), "which is not allowed"),
        (npy("'<U0'", "(1000000000000,)", b""), "which is not allowed"),
        (npy("'<f8'", "(3,)", bytes(16)), "array_0.npy declares 24 bytes but has 16"),
        (npy("'<f8'", "(1,)", bytes(16)), "array_0.npy declares 8 bytes but has 16"),
        (npy("'<f8'", "(1099511627776,)", bytes(16)), "declares 8796093022208 bytes but has 16"),
        (
            npy("'<f8'", "(" + "9" * 19 + ", " + "9" * 19 + ")", b""),
            "declares .* bytes but has 0",
        ),
        (
            npy("'|b1'", "(2,)", b"\x01\x07"),
            "array_0.npy, which has booleans that are neither",
        ),
        (npy("'<U1'", "(2,)", b"a\0\0\0\0\0\x11\0"), "array_0.npy, which has text that is not Unicode"),
        (npy("'>U1'", "(2,)", b"\0\0\0a\0\x11\0\0"), "array_0.npy, which has text that is not Unicode"),
        (npy("'<f8'", "(0, 9999999999999999999)", b""), "array_0.npy declares more rows than the file has"),
        (npy("'<f8'", "(1000000000, 0)", b""), "array_0.npy declares more rows than the file has"),
        (npy("'<f8'", "(" + "0, " * 99 + "0)", b""), "array_0.npy, which has an impossible shape"),
        (npy("'<U999999999'", "(0,)", b""), "array_0.npy, which has an impossible shape"),
    ],
)
def test_an_array_that_is_not_what_it_says(content, reason, path):
    edit_member(path, "array_0.npy", content)
    assert_refused(path, reason)


def test_a_declared_terabyte_is_not_allocated(path):
    edit_member(path, "array_0.npy", npy("'<f8'", f"({2**37},)", bytes(16)))
    tracemalloc.start()
    try:
        assert_refused(path, "declares 1099511627776 bytes")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_large_array_is_not_read_when_the_header_is_wrong(path):
    edit_member(path, "array_0.npy", npy("'|u1'", f"({50_000_000},)", bytes(50_000_000)))
    edit_header(path, lambda header: header["calibrator"].update({"class": "Unknown"}))
    tracemalloc.start()
    try:
        assert_refused(path, "which is not known here")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


# The archive


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compressed_member(method, path):
    members = members_of(path)
    write_members(path, members, method)
    assert_refused(path, "holds header.json in compressed form, which is not allowed")
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content, zipfile.ZIP_STORED if name != "array_1.npy" else method)
    assert_refused(path, "holds array_1.npy in compressed form, which is not allowed")


@pytest.mark.parametrize(
    "name",
    [
        "../evil.npy",
        "/etc/passwd",
        "array_00.npy",
        "array_-1.npy",
        "array_0.npy\n",
        "x",
        "header.json/",
        "é.npy",
    ],
)
def test_a_member_with_another_name(name, path):
    edit_member(path, name, npy_of(np.zeros(2)))
    assert_refused(path, "holds .*, which is no part of a calibrator")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["header.json", "array_0.npy"])
def test_a_name_that_occurs_twice(name, path):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, members_of(path)[name])
    assert_refused(path, "is damaged: two members have the same name")


def test_an_array_that_nobody_refers_to(path):
    edit_member(path, f"array_{len(members_of(path)) - 1}.npy", npy_of(np.zeros(2)))
    assert_refused(path, "some arrays are referred to twice or never")


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_missing_array(number, path):
    members = members_of(path)
    del members[f"array_{number}.npy"]
    write_members(path, members)
    assert_refused(path, f"is damaged: array_{number}.npy is missing")


def test_bytes_before_between_and_after(path):
    content = path.read_bytes()
    path.write_bytes(b"PK\x03\x04" + content)
    assert_refused(path, "is damaged: there is an overlap or a gap before header.json")
    path.write_bytes(content + b"more")
    assert_refused(path, "is damaged: there are other data after its members")
    with zipfile.ZipFile(path, "w") as archive:
        for name, member in members_of_bytes(content).items():
            archive.writestr(name, member)
        archive.comment = b"hello"
    assert_refused(path, "is damaged: there are other data after its members")


def members_of_bytes(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_overlapping_members_that_would_multiply_the_memory(path):
    """The data of array_0 contain the local header and the data of array_1: each is honest by itself."""
    header = members_of(path)["header.json"]
    inner = npy_of(np.zeros(1000))
    inner_local = local_header("array_1.npy", inner)
    data = inner_local + inner
    outer = npy("'|u1'", f"({len(data)},)", data)
    first = local_header("header.json", header) + header
    outer_local = local_header("array_0.npy", outer)
    body = first + outer_local + outer
    directory = (
        directory_entry("header.json", header, 0)
        + directory_entry("array_0.npy", outer, len(first))
        + directory_entry("array_1.npy", inner, len(body) - len(data))
    )
    path.write_bytes(body + directory + end_record(3, len(directory), len(body)))
    assert_refused(path, "is damaged: there is an overlap or a gap before array_1.npy")


def test_an_encrypted_member(path):
    content = bytearray(path.read_bytes())
    flags = content.rindex(b"PK\x01\x02") + 8
    content[flags] |= 1
    path.write_bytes(content)
    assert_refused(path, "is damaged: array_3.npy is encrypted or has contradictory sizes")


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        (42, 2**31, "array_3.npy lies outside the file"),
        (42, 0, "array_3.npy is not where the directory says"),
        (20, 2**31, "array_3.npy is encrypted or has contradictory sizes"),
        (16, 0, "the checksum of array_3.npy is wrong"),
    ],
)
def test_a_directory_that_lies(field, value, reason, path):
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, content.rindex(b"PK\x01\x02") + field, value)
    path.write_bytes(content)
    assert_refused(path, f"is damaged: {reason}")


def test_a_member_that_ends_outside_the_file(path):
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    struct.pack_into("<II", content, entry + 20, 2**31, 2**31)
    path.write_bytes(content)
    assert_refused(path, "is damaged: array_3.npy ends outside the file")


def test_changed_data_are_found_by_their_checksum(path):
    content = path.read_bytes()
    bee = "bee".encode("utf-32-le")
    assert content.count(bee) == 1
    path.write_bytes(content.replace(bee, "fee".encode("utf-32-le")))
    assert_refused(path, "is damaged: the checksum of array_0.npy is wrong")
    path.write_bytes(content.replace(b"TemperatureScaling", b"TemperatureScalinG"))
    assert_refused(path, "is damaged: the checksum of header.json is wrong")
