"""Files of finished units: another store continues from them, and damaged files are refused."""

import lzma

import pytest
from study_folders import GRID, TRIALS, write_study

from calibrant.errors import ParameterError, StudyError
from calibrant.studies import Imported, Store, export_units, import_units, plan, read_recipe, run


@pytest.fixture(params=[GRID, TRIALS], ids=["grid", "trials"])
def finished(request, tmp_path):
    """A plan, the path of a store with all its units, and a file of them."""
    planned = plan(read_recipe(write_study(tmp_path / "study", request.param)))
    with Store(tmp_path / "one.sqlite") as store:
        run(planned, store)
        n_done = export_units(planned, store, tmp_path / "units.csv.xz")
    assert n_done == len({unit.key for unit in planned.units})
    return planned, tmp_path / "one.sqlite", tmp_path / "units.csv.xz"


def contents(planned, path):
    with Store(path) as store:
        return [
            (
                record.key,
                dict(record.labels),
                {name: value for name, value in record.values.items() if not name.endswith("seconds")},
                {name: value for name, value in record.details.items() if not name.endswith("seconds")},
            )
            for record in planned.records(store)
        ]


def test_a_run_continues_from_imported_units(finished, tmp_path):
    planned, first, file = finished
    with Store(tmp_path / "two.sqlite") as store:
        assert import_units(planned, store, file).added == len({unit.key for unit in planned.units})
        summary = run(planned, store)
        assert (summary.done, summary.failed, summary.reused) == (0, 0, len(planned.units))
        (imported,) = store.runs()
    assert contents(planned, tmp_path / "two.sqlite") == contents(planned, first)
    with Store(first) as store:
        (original,) = store.runs()
        times = [record.seconds for record in planned.records(store)]
    assert imported.versions == original.versions
    with Store(tmp_path / "two.sqlite") as store:
        assert [record.seconds for record in planned.records(store)] == pytest.approx(times, abs=1e-6)


def test_the_file_is_the_same_after_a_round_trip(finished, tmp_path):
    planned, _, file = finished
    with Store(tmp_path / "two.sqlite") as store:
        import_units(planned, store, file)
        export_units(planned, store, tmp_path / "again.csv.xz")
    assert (tmp_path / "again.csv.xz").read_bytes() == file.read_bytes()


def test_units_that_are_known_or_not_in_the_recipe_are_counted(tmp_path):
    planned = plan(read_recipe(write_study(tmp_path / "study", GRID)))
    other = plan(read_recipe(write_study(tmp_path / "other", "seed = 8\n" + GRID)))
    assert not {unit.key for unit in planned.units} & {unit.key for unit in other.units}
    number = len({unit.key for unit in planned.units})
    with Store(tmp_path / "one.sqlite") as store, Store(tmp_path / "two.sqlite") as second:
        run(planned, store)
        export_units(planned, store, tmp_path / "units.csv.xz")
        assert import_units(planned, store, tmp_path / "units.csv.xz") == Imported(0, number, 0)
        assert import_units(other, second, tmp_path / "units.csv.xz") == Imported(0, 0, number)
        assert not second.runs()


def test_damaged_files_are_refused_in_one_sentence(finished, tmp_path):
    planned, _, file = finished
    content = file.read_bytes()
    text = lzma.decompress(content).decode()
    header, *rows = text.splitlines()
    bad = {
        "cut": content[: len(content) // 2],
        "flipped": content[:50] + bytes([content[50] ^ 1]) + content[51:],
        "appended": content + b"more",
        "plain": text.encode(),
        "empty": lzma.compress(b""),
        "other table": lzma.compress(b"a,b\n1,2\n"),
        "short row": lzma.compress(f"{header}\n{rows[0].rpartition(',')[0]}\n".encode()),
        "words for numbers": lzma.compress(f"{header}\n{rows[0].rpartition(',')[0]},much\n".encode()),
        "not text": lzma.compress(b"\xff\xfe\x00"),
    }
    for name, damaged in bad.items():
        (tmp_path / "bad.csv.xz").write_bytes(damaged)
        with Store(tmp_path / "two.sqlite") as store:
            with pytest.raises(StudyError) as caught:
                import_units(planned, store, tmp_path / "bad.csv.xz")
            assert not store.keys(), name
        assert str(caught.value).endswith(
            "bad.csv.xz is damaged or is not a table of finished units; restore it, or export it again."
        ), name


def test_names_and_absent_files(finished, tmp_path):
    planned, first, _ = finished
    with Store(first) as store:
        with pytest.raises(ParameterError, match=r"is named \*\.csv\.xz, not units\.csv; rename it"):
            export_units(planned, store, tmp_path / "units.csv")
        with pytest.raises(StudyError, match=r"none\.csv\.xz cannot be read: No such file"):
            import_units(planned, store, tmp_path / "none.csv.xz")
