"""An output that is also an input: refused before any work, unless apply calibrates a file in its place."""

# ruff: noqa: F811 (fixtures are imported, since a second file of fixtures would confuse the doctests)

import os

import pytest
from animal_files import COLUMNS, folder, run  # noqa: F401


@pytest.fixture
def unread(monkeypatch):
    """Make reading of files an error of the program itself."""

    def opened(path):
        raise RuntimeError(f"{path} was opened")

    monkeypatch.setattr("calibrant.cli.files.open_source", opened)


@pytest.mark.parametrize("command", ["evaluate", "fit", "compare", "report --format html"])
@pytest.mark.parametrize("spelling", ["same", "dots", "absolute", "symbolic link", "hard link"])
def test_no_command_writes_over_the_file_that_it_reads(run, folder, unread, command, spelling):
    output = {
        "same": "val.csv",
        "dots": f"../{folder.name}/val.csv",
        "absolute": str(folder / "val.csv"),
    }.get(spelling, "link.csv")
    if spelling == "symbolic link":
        (folder / "link.csv").symlink_to("val.csv")
    if spelling == "hard link":
        os.link(folder / "val.csv", folder / "link.csv")
    before = (folder / "val.csv").read_bytes()
    result = run(f"{command} val.csv {COLUMNS} -o {output}", expected=1)
    assert (
        result.stderr
        == f"Error: the output {output} would overwrite the input val.csv; give another output.\n"
    )
    assert (folder / "val.csv").read_bytes() == before


def test_compare_does_not_write_over_the_test_rows(run, folder, unread):
    result = run(f"compare val.csv {COLUMNS} --test test.csv -o ./test.csv", expected=1)
    assert "would overwrite the input test.csv" in result.stderr


def test_apply_does_not_write_over_the_calibrator(run, folder):
    run(f"fit val.csv {COLUMNS} --method temperature -o cal.npz")
    before = (folder / "cal.npz").read_bytes()
    result = run("apply val.csv --calibrator cal.npz -o ./cal.npz", expected=1)
    assert "would overwrite the input cal.npz" in result.stderr
    assert (folder / "cal.npz").read_bytes() == before


def test_a_link_to_nothing_that_will_be_the_input_is_no_reason_to_fail_otherwise(run, folder):
    """Neither file is there: the missing input is named, and nothing is written."""
    (folder / "link.csv").symlink_to("nothing.csv")
    for output in ("link.csv", "other.csv"):
        result = run(f"evaluate nothing.csv {COLUMNS} -o {output}", expected=1)
        assert result.stderr == "Error: nothing.csv: no such file.\n"
    assert not (folder / "nothing.csv").exists()
