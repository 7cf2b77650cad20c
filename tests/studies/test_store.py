"""The store keeps every record once, and says in one sentence what is wrong with its file."""

import math
import os
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from calibrant.errors import StoreError
from calibrant.studies import Record, Store

ALL_KINDS = Record(
    "abc",
    {"data": "abalone", "repeat": 3, "rows": 0.5, "calibrated": True},
    "done",
    {"log_loss": 0.1 + 0.2, "tiny": 5e-324, "nothing": math.nan, "all": math.inf, "less": -math.inf},
    {"chosen": [{"n_bins": 5}], "series": {"x": [1.0, math.inf]}, "warnings": {"UserWarning": 2}},
    "said “so”",
    1.25,
)


def one_sentence(error: Exception) -> bool:
    text = str(error)
    return text.endswith(".") and "\n" not in text


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def test_a_record_comes_back_with_all_its_digits(store):
    store.add(ALL_KINDS)
    (found,) = store.records()
    assert repr(found) == repr(ALL_KINDS)  # NaN is not equal to itself


def test_numbers_of_numpy_are_kept_as_numbers(store):
    store.add(
        Record("a", {"repeat": np.int64(2)}, "done", {"x": np.float64(0.1)}, {"series": np.arange(2.0)})
    )
    (found,) = store.records()
    assert (found.labels, found.values, found.details) == ({"repeat": 2}, {"x": 0.1}, {"series": [0.0, 1.0]})


def test_records_are_still_there_when_the_file_is_opened_again(tmp_path):
    for number in range(3):
        with Store(tmp_path / "store.sqlite") as opened:
            assert len(opened.records()) == number
            opened.add(Record(str(number), {}, "done"))


def test_a_record_takes_the_place_of_one_with_the_same_key(store):
    store.add(Record("a", {}, "failed", message="no."))
    store.add(Record("a", {}, "done", {"x": 1.0}))
    assert [record.status for record in store.records()] == ["done"]


def test_keys_and_records_are_chosen_by_status_and_by_key(store):
    for key, status in (("a", "done"), ("b", "failed"), ("c", "too slow"), ("d", "done")):
        store.add(Record(key, {}, status))
    assert store.keys() == {"a", "b", "c", "d"}
    assert store.keys("done") == {"a", "d"}
    assert [record.key for record in store.records({"d", "b", "elsewhere"})] == ["b", "d"]


def test_more_keys_can_be_asked_for_than_a_statement_of_sqlite_has_places(store):
    store.add(Record("7", {}, "done"))
    assert len(store.records(str(number) for number in range(300_000))) == 1


def test_what_is_forgotten_is_gone(store):
    for key in "abc":
        store.add(Record(key, {}, "done"))
    assert store.forget(["a", "b", "elsewhere"]) == 2
    assert store.keys() == {"c"}


def test_runs_say_on_what_they_were_run_and_for_how_long(store):
    number = store.begin_run("study", None, jobs=2, backend="loky", processors=4, versions={"numpy": "2.0"})
    store.add(Record("a", {}, "done"), run=number, seconds=1.5)
    store.add(Record("b", {}, "failed"), run=number, seconds=2.5)
    (run,) = store.runs()
    assert (run.study, run.form, run.jobs, run.backend, run.processors) == ("study", None, 2, "loky", 4)
    assert (run.seconds, run.finished, dict(run.versions)) == (2.5, 2, {"numpy": "2.0"})
    assert run.started <= run.updated


def test_there_is_one_file_when_nothing_is_written(store):
    store.add(ALL_KINDS)
    assert [path.name for path in store.path.parent.iterdir()] == ["store.sqlite"]


def test_another_process_may_read_while_one_writes(store):
    store.add(ALL_KINDS)
    with store.locked(), Store(store.path) as reader:
        store.add(Record("b", {}, "done"))
        assert len(reader.records()) == 2


# What is wrong with the file


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but a long text " * 50)
    with pytest.raises(
        StoreError, match=r"notes.txt is not a store of calibrant; name another file"
    ) as caught:
        Store(path)
    assert one_sentence(caught.value)
    assert path.read_text().startswith("not a database")


def test_a_database_of_something_else(tmp_path):
    path = tmp_path / "music.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    connection.close()
    with pytest.raises(StoreError, match=r"music.sqlite is a database of another program") as caught:
        Store(path)
    assert one_sentence(caught.value)


def test_a_store_of_a_later_format(store):
    with sqlite3.connect(store.path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(
        StoreError, match=r"later version of calibrant, in format 7, and this version reads up to 2; update"
    ) as caught:
        Store(store.path)
    assert one_sentence(caught.value)


def test_an_empty_file_becomes_a_store(tmp_path):
    """As a process leaves it that was killed just after it made the file."""
    path = tmp_path / "store.sqlite"
    path.touch()
    with Store(path) as opened:
        assert opened.records() == []


def test_a_store_that_is_not_there(tmp_path):
    with pytest.raises(StoreError, match=r"there is no store .*; run the study first"):
        Store(tmp_path / "store.sqlite", create=False)
    with pytest.raises(
        StoreError, match=r"there is no folder .* for the store store.sqlite; create it first"
    ):
        Store(tmp_path / "nowhere" / "store.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_store(tmp_path):
    with pytest.raises(
        StoreError, match=r"is a folder and cannot be opened as a store; name a file"
    ) as caught:
        Store(tmp_path)
    assert one_sentence(caught.value)


@pytest.mark.skipif(os.name == "nt", reason="there are no such links")
def test_a_file_that_cannot_be_opened(tmp_path):
    """A link to a folder that is not there can be opened by nobody, whatever the rights."""
    path = tmp_path / "store.sqlite"
    path.symlink_to(tmp_path / "nowhere" / "store.sqlite")
    with pytest.raises(StoreError, match=r"store.sqlite cannot be opened as a store; name another") as caught:
        Store(path)
    assert one_sentence(caught.value)
    assert "is kept" not in str(caught.value)


def test_a_second_run_on_the_same_store_is_refused(store):
    with store.locked(), Store(store.path) as second:
        with pytest.raises(StoreError, match=r"another run is writing to .*; wait until it ends") as caught:
            second.forget(["a"])
        assert one_sentence(caught.value)
    assert store.forget(["a"]) == 0


def test_the_lock_of_a_process_that_was_killed_is_free(store):
    script = (
        "import os, signal, sys; from calibrant.studies.store import Store\n"
        "with Store(sys.argv[1]) as store, store.locked(): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(store.path)], check=False).returncode == -9
    with store.locked():
        pass


def test_a_transaction_that_was_not_ended_is_undone_by_the_next_process(store):
    """The file is changed and its journal is there when the process dies; the next one puts it back."""
    store.add(ALL_KINDS)
    store.close()
    script = (
        "import os, signal, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA cache_size = 1')\n"  # so that pages are written before the end
        "connection.execute('BEGIN')\n"
        "connection.execute('DELETE FROM records')\n"
        "for number in range(2000):\n"
        "    connection.execute(\"INSERT INTO records VALUES (?, '', '', '', '', '', 0, 0, '')\", (str(number) * 50,))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    size = store.path.stat().st_size
    subprocess.run([sys.executable, "-c", script, str(store.path)], check=False)
    assert store.path.stat().st_size > size
    assert store.path.with_name("store.sqlite-journal").exists()
    with Store(store.path) as opened:
        assert [record.key for record in opened.records()] == ["abc"]


# Damage


def filled(path, n_records=200):
    """A store with many records and two runs, and what is in it."""
    with Store(path) as store:
        for number in range(2):
            run = store.begin_run(
                "study", None, jobs=1, backend="loky", processors=2, versions={"numpy": "2"}
            )
            store.add(
                *(
                    Record(
                        f"{1000 * number + unit:064x}",
                        {"data": "iris", "calibrator": "beta", "repeat": unit},
                        "done" if unit % 5 else "failed",
                        {"log_loss": unit / 7, "brier": unit / 11},
                        {"chosen": [{"depth": unit}]},
                        "" if unit % 5 else "no way.",
                        unit / 13,
                    )
                    for unit in range(n_records // 2)
                ),
                run=run,
                seconds=3.5,
            )
    with Store(path) as store:
        return content(store)


def content(store):
    return {record.key: repr(record) for record in store.records()}, repr(store.runs())


def test_two_hundred_damaged_stores(tmp_path):
    """Each is refused in one sentence, or what can be read of it is what was written."""
    path = tmp_path / "store.sqlite"
    records, runs = filled(path)
    whole = path.read_bytes()
    generator = np.random.default_rng(0)
    complaints = []
    for number in range(200):
        changed = bytearray(whole)
        place = int(generator.integers(len(whole)))
        if number % 4 == 0:
            changed[place] ^= 1 << int(generator.integers(8))
        elif number % 4 == 1:
            changed[place : place + 16] = generator.bytes(16)[: len(whole) - place]
        elif number % 4 == 2:
            page = 4096 * int(generator.integers(len(whole) // 4096))
            changed[page : page + 4096] = bytes(4096) if place % 2 else generator.bytes(4096)
        else:
            del changed[place:]
        path.write_bytes(bytes(changed))
        try:
            with Store(path) as store:
                found, found_runs = content(store)
        except StoreError as error:
            complaints.append(error)
        else:
            assert found.items() <= records.items(), number
            assert found_runs in (runs, "[]"), number
    assert all(one_sentence(error) and str(path) in str(error) for error in complaints)
    assert len(complaints) > 100


def test_a_number_that_was_changed_is_noticed(tmp_path):
    path = tmp_path / "store.sqlite"
    filled(path, 4)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE records SET numbers = replace(numbers, '0.1', '0.9')")
    connection.commit()
    connection.close()
    with (
        Store(path) as store,
        pytest.raises(
            StoreError, match=r"is damaged: the checksum of the row '.*' of the table records does not match"
        ),
    ):
        store.records()


def test_a_run_that_was_changed_is_noticed(tmp_path):
    path = tmp_path / "store.sqlite"
    filled(path, 4)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE runs SET study = 'other'")
    connection.commit()
    connection.close()
    with (
        Store(path) as store,
        pytest.raises(StoreError, match=r"is damaged: the checksum of the row '1' of the table runs"),
    ):
        store.runs()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",
        "CREATE VIEW v AS SELECT 1",
        "ALTER TABLE records ADD COLUMN more TEXT",
        "ALTER TABLE records ADD COLUMN more TEXT GENERATED ALWAYS AS (key || key) VIRTUAL",
        "ALTER TABLE records DROP COLUMN checksum",
        "DROP TABLE runs",
    ],
)
def test_a_store_with_other_tables_than_ours(tmp_path, statement):
    path = tmp_path / "store.sqlite"
    filled(path, 4)
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match=r"is damaged: .*table") as caught:
        Store(path)
    assert one_sentence(caught.value)


def without_checksums(path):
    """Turn a store into one of format 1."""
    connection = sqlite3.connect(path)
    for table in ("runs", "records"):
        connection.execute(f"ALTER TABLE {table} DROP COLUMN checksum")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()


def test_a_store_without_checksums_is_read_and_gets_them_when_it_is_written_to(tmp_path):
    path = tmp_path / "store.sqlite"
    records, runs = filled(path, 10)
    without_checksums(path)
    before = path.read_bytes()
    with Store(path) as store, Store(path) as second:
        assert content(store) == (records, runs)
        assert path.read_bytes() == before
        store.add(ALL_KINDS)
        second.add(Record("b", {}, "done"))
    with Store(path) as store:
        assert len(content(store)[0]) == 12
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert connection.execute("SELECT count(*) FROM records WHERE checksum IS NULL").fetchone() == (0,)
    connection.execute("UPDATE records SET checksum = NULL WHERE key = 'b'")
    connection.commit()
    connection.close()
    with Store(path) as store, pytest.raises(StoreError, match="checksum"):
        store.records()


def test_a_damaged_record_of_an_old_store_is_one_sentence(tmp_path):
    path = tmp_path / "store.sqlite"
    filled(path, 4)
    without_checksums(path)
    for column, value in (("labels", "[1]"), ("numbers", "{"), ("status", "gone"), ("details", b"\xff")):
        connection = sqlite3.connect(path)
        connection.execute(f"UPDATE records SET {column} = ?", (value,))
        connection.commit()
        connection.close()
        with (
            Store(path) as store,
            pytest.raises(StoreError, match=r"is damaged: the record '0+' cannot be read"),
        ):
            store.records()
