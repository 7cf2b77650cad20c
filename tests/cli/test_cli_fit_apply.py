"""calibrant fit and apply: what is learnt is saved, and applied without touching anything else."""

# ruff: noqa: F811 (fixtures are imported, since a second file of fixtures would confuse the doctests)

import csv
import json

import numpy as np
import pytest
from animal_files import CLASSES, COLUMNS, folder, probabilities, run  # noqa: F401
from numpy.testing import assert_allclose, assert_array_equal

from calibrant import AutoCalibration, Predictions, TemperatureScaling, load
from calibrant.metrics import log_loss


def fitted(run, options: str = "--method temperature", file: str = "val.csv", columns: str = COLUMNS) -> None:
    run(f"fit {file} {columns} {options} -o cal.npz")


def cells(path, names):
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return np.array([[float(row[name]) for name in names] for row in rows])


def test_the_calibrator_is_that_of_the_library(run, folder):
    p, y = probabilities(120, 0)
    fitted(run)
    own = TemperatureScaling().fit(Predictions.from_probabilities(p, classes=CLASSES), np.array(CLASSES)[y])
    saved = load(folder / "cal.npz")
    assert saved.temperature_ == own.temperature_
    assert saved.classes_.tolist() == CLASSES
    assert_array_equal(saved.predict_proba(p), own.predict_proba(p))


def test_what_was_learnt_is_printed(run):
    p, y = probabilities(120, 0)
    content = json.loads(run(f"fit val.csv {COLUMNS} --method temperature -o cal.npz --format json").stdout)
    own = TemperatureScaling().fit(p, y)
    assert content["learnt"] == [f"Temperature {own.temperature_:.4g}: the classifier was over-confident."]
    assert content["losses"][0]["before"] == pytest.approx(log_loss(y, p))
    assert content["losses"][0]["after"] == pytest.approx(log_loss(y, own.predict_proba(p)))
    assert content["changed"] == 0


def test_auto_explains_itself_and_gets_the_groups(run, folder):
    p, y = probabilities(120, 0)
    text = run(
        f"fit val.csv {COLUMNS} --group who -o cal.npz --set candidates=['temperature','vector']"
    ).stdout
    own = AutoCalibration(["temperature", "vector"]).fit(p, y, groups=np.arange(120) // 4)
    assert " ".join(text.split()).count(" ".join(own.explanation_.split())) == 1


def test_groups_are_refused_by_methods_that_do_not_use_them(run):
    result = run(f"fit val.csv {COLUMNS} --group who --method temperature -o cal.npz", expected=2)
    assert "--group is for methods that cross-validate internally" in result.stderr


def test_parameters_and_weights_reach_the_method(run, folder):
    p, y = probabilities(120, 0)
    fitted(run, "--method temperature --set loss=brier --weight w")
    own = TemperatureScaling(loss="brier").fit(p, y, 1 + np.arange(120) % 3)
    assert load(folder / "cal.npz").temperature_ == own.temperature_


@pytest.mark.parametrize(
    "method", ["vector", "isotonic", "temperature+vector", "irova-ts", "knn-kl", "uncalibrated"]
)
def test_any_name_of_the_registry_will_do(run, folder, method):
    fitted(run, f"--method {method}")
    run("apply test.csv --calibrator cal.npz -o out.csv")
    p, _ = probabilities(90, 1)
    found = cells(folder / "out.csv", [f"p_{name}" for name in CLASSES])
    assert_allclose(found, load(folder / "cal.npz").predict_proba(p), rtol=1e-12)


def test_other_columns_stay_byte_for_byte(run, folder):
    fitted(run)
    result = run("apply test.csv --calibrator cal.npz -o out.csv")
    assert result.stdout == ""
    assert "Wrote out.csv (90 rows); score columns now hold calibrated probabilities." in result.stderr
    for old, new in zip(
        *((folder / name).read_bytes().split(b"\n") for name in ("test.csv", "out.csv")), strict=True
    ):
        if old:
            assert old.split(b",")[:2] == new.split(b",")[:2]
            assert old.split(b",")[5:] == new.split(b",")[5:]


def test_batches_give_the_same_file(run, folder, monkeypatch):
    fitted(run)
    run("apply test.csv --calibrator cal.npz -o whole.csv")
    monkeypatch.setattr("calibrant.tables.prediction_file.LARGEST_BATCH", 7)
    run("apply test.csv --calibrator cal.npz -o parts.csv")
    assert (folder / "whole.csv").read_bytes() == (folder / "parts.csv").read_bytes()


def test_a_file_can_be_calibrated_in_its_place(run, folder):
    fitted(run)
    run("apply test.csv --calibrator cal.npz -o out.csv")
    run("apply test.csv --calibrator cal.npz -o test.csv")
    assert (folder / "test.csv").read_bytes() == (folder / "out.csv").read_bytes()


def test_columns_can_be_appended(run, folder):
    fitted(run)
    run("apply test.csv --calibrator cal.npz -o out.csv --append --prefix new_")
    old, new = ((folder / name).read_text().splitlines() for name in ("test.csv", "out.csv"))
    assert new[0] == old[0] + ",new_cat,new_dog,new_owl"
    assert all(after.startswith(before + ",") for before, after in zip(old[1:], new[1:], strict=True))


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_arrow_files_keep_their_other_columns(run, folder, ending):
    pa = pytest.importorskip("pyarrow")
    parquet, feather = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.feather")
    p, y = probabilities(90, 1)
    columns = {f"p_{name}": p[:, k].astype(np.float32) for k, name in enumerate(CLASSES)}
    table = pa.table({"id": pa.array(range(90), pa.int16()), **columns, "animal": np.array(CLASSES)[y]})
    write = parquet.write_table if ending == "parquet" else feather.write_feather
    read = parquet.read_table if ending == "parquet" else feather.read_table
    write(table, folder / f"a.{ending}")
    fitted(run, file=f"a.{ending}")
    run(f"apply a.{ending} --calibrator cal.npz -o b.{ending}")
    new = read(folder / f"b.{ending}")
    assert new.schema.equals(table.schema)
    assert new.column("id").equals(table.column("id"))
    expected = load(folder / "cal.npz").predict_proba(p.astype(np.float32))
    assert_array_equal(np.column_stack([new.column(f"p_{name}") for name in CLASSES]), expected)


def test_logits_of_npz_become_probabilities(run, folder):
    p, y = probabilities(120, 0)
    np.savez(folder / "a.npz", logits=np.log(p).astype(np.float32), y=y, more=np.arange(3))
    run("fit a.npz --space logits --method vector -o cal.npz")
    result = run("apply a.npz --calibrator cal.npz -o b.npz")
    assert "instead of logits" in result.stderr
    with np.load(folder / "b.npz") as new:
        assert_allclose(new["logits"].sum(axis=1), 1, rtol=1e-5)
        assert new["logits"].dtype == np.float32
        assert_array_equal(new["more"], np.arange(3))


def test_one_column_stays_one(run, folder):
    p, y = probabilities(120, 0)
    lines = [
        f"{number},{int(label == 1)},{score!r}"
        for number, (label, score) in enumerate(zip(y, p[:, 1].tolist(), strict=True))
    ]
    (folder / "two.csv").write_text("\n".join(["id,y,score", *lines]) + "\n")
    run("fit two.csv --space probabilities --columns score --method platt -o cal.npz")
    run("apply two.csv --calibrator cal.npz --columns score -o out.csv")
    expected = load(folder / "cal.npz").predict_proba(p[:, 1])[:, 1]
    assert_allclose(cells(folder / "out.csv", ["score"])[:, 0], expected, rtol=1e-12)


def test_columns_in_another_order_are_put_in_order(run, folder):
    fitted(run)
    run("apply test.csv --calibrator cal.npz -o out.csv")
    text = (folder / "test.csv").read_text().replace("p_cat,p_dog,p_owl", "p_owl,p_dog,p_cat", 1)
    lines = text.splitlines()
    moved = [lines[0]]
    for line in lines[1:]:
        fields = line.split(",")
        fields[2], fields[4] = fields[4], fields[2]
        moved.append(",".join(fields))
    (folder / "moved.csv").write_text("\n".join(moved) + "\n")
    run("apply moved.csv --calibrator cal.npz -o moved_out.csv --columns p_*")
    names = [f"p_{name}" for name in CLASSES]
    assert_array_equal(cells(folder / "moved_out.csv", names), cells(folder / "out.csv", names))


def test_columns_that_are_numbered_in_the_fit_are_found_by_their_names(run, folder):
    p, y = probabilities(120, 0)
    rows = [f"{label},{','.join(map(repr, values))}" for label, values in zip(y, p.tolist(), strict=True)]
    (folder / "a.csv").write_text("\n".join(["y,first,second,third", *rows]) + "\n")
    run("fit a.csv --space probabilities --method vector -o cal.npz")
    run("apply a.csv --calibrator cal.npz -o b.csv")
    found = cells(folder / "b.csv", ["first", "second", "third"])
    assert_allclose(found, load(folder / "cal.npz").predict_proba(p), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("p_ant,p_bee,p_fly\n0.2,0.3,0.5\n", ""),
        ("p_ant,p_bee,p_fly\n0.2,0.3,0.5\n", "--columns p_*"),
        ("p_cat,p_dog\n0.5,0.5\n", "--columns p_*"),
    ],
)
def test_a_calibrator_for_other_classes_is_refused_and_nothing_is_written(run, folder, text, option):
    fitted(run)
    (folder / "other.csv").write_text(text)
    before = sorted(path.name for path in folder.iterdir())
    result = run(f"apply other.csv --calibrator cal.npz -o out.csv {option}", expected=1)
    assert "'cat', 'dog' and 'owl'" in result.stderr.replace("'cat', 'dog', 'owl'", "'cat', 'dog' and 'owl'")
    assert result.stderr.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == before


def test_two_sets_of_columns_must_be_chosen_between(run, folder):
    fitted(run)
    run("apply test.csv --calibrator cal.npz -o out.csv --append")
    result = run("apply out.csv --calibrator cal.npz -o again.csv", expected=1)
    assert "several sets of columns" in result.stderr
    run("apply out.csv --calibrator cal.npz -o again.csv --columns p_*")


# In batches


@pytest.mark.parametrize("method", ["temperature", "vector", "beta", "isotonic", "shared-map"])
@pytest.mark.parametrize("weights", ["", "--weight w"])
def test_a_large_file_is_fitted_in_batches_to_the_same_map(run, folder, monkeypatch, method, weights):
    expected = json.loads(
        run(f"fit val.csv {COLUMNS} {weights} --method {method} -o a.npz --format json").stdout
    )
    monkeypatch.setattr("calibrant.cli.commands.fit.SCORES_IN_MEMORY", 0)
    monkeypatch.setattr("calibrant.tables.prediction_file.LARGEST_BATCH", 17)
    content = json.loads(
        run(f"fit val.csv {COLUMNS} {weights} --method {method} -o b.npz --format json").stdout
    )
    for one, other in zip(content["losses"], expected["losses"], strict=True):
        assert one["before"] == pytest.approx(other["before"], rel=1e-12)
        assert one["after"] == pytest.approx(other["after"], rel=1e-6)
    assert (content["n_rows"], content["classes"]) == (expected["n_rows"], expected["classes"])
    scores = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    whole, batches = load(folder / "a.npz"), load(folder / "b.npz")
    assert_allclose(batches.predict_proba(scores), whole.predict_proba(scores), atol=1e-5)
    assert batches.classes_.tolist() == whole.classes_.tolist()


def test_what_is_wrong_with_a_large_file_is_said_in_a_sentence(run, folder, monkeypatch):
    monkeypatch.setattr("calibrant.cli.commands.fit.SCORES_IN_MEMORY", 0)
    (folder / "zero.csv").write_text("y,a,b,w\na,0.9,0.1,0\nb,0.2,0.8,0\n")
    result = run(
        "fit zero.csv --space probabilities --weight w --columns a,b --method temperature -o c.npz",
        expected=1,
    )
    assert "zero.csv: all weights are zero; at least one must be positive." in result.stderr
    (folder / "high.csv").write_text("y,a,b\n" + "a,0.9,0.1\n" * 40 + "b,0.7,0.8\n")
    result = run("fit high.csv --space probabilities --columns a,b --method temperature -o c.npz", expected=1)
    assert "high.csv: the probabilities in row 41 (line 42) sum to 1.5 and not to 1" in result.stderr
    assert not (folder / "c.npz").exists()


# Rows without a score


def with_empty_cells(folder) -> list[int]:
    """Remove a score of rows 2, 5 and the last of test.csv, and return the numbers of the other rows."""
    lines = (folder / "test.csv").read_text(encoding="utf-8").splitlines()
    for number in (3, 6, 90):
        start = lines[number].split(",")
        lines[number] = ",".join([*start[:3], "" if number == 3 else "NA", *start[4:]])
    (folder / "test.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [row for row in range(90) if row not in (2, 5, 89)]


@pytest.mark.parametrize("options", ["", "--append"])
def test_apply_can_drop_rows_without_a_score(run, folder, options):
    p, _ = probabilities(90, 1)
    kept = with_empty_cells(folder)
    fitted(run)
    message = run(f"apply test.csv --calibrator cal.npz -o out.csv {options}", expected=1).output
    assert "row 3 (line 4), column 'p_dog' has no value" in message
    assert "add --drop-missing" in message
    result = run(f"apply test.csv --calibrator cal.npz -o out.csv --drop-missing {options}")
    assert "3 rows with a missing value were dropped" in result.stderr
    assert "Wrote out.csv (87 rows)" in result.stderr
    before = "calibrated_" if options else "p_"
    new = cells(folder / "out.csv", [f"{before}{name}" for name in CLASSES])
    assert_allclose(new, load(folder / "cal.npz").predict_proba(p[kept]), rtol=1e-12)
    names = [line.split(",")[0] for line in (folder / "out.csv").read_text().splitlines()[1:]]
    assert names == [f"{row:03d}" for row in kept]


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_apply_drops_rows_of_other_formats(run, folder, ending):
    p, _ = probabilities(9, 1)
    p[4, 1] = np.nan
    rows = [dict(zip(CLASSES, values, strict=True)) for values in p.tolist()]
    rows[4]["dog"] = None
    path = folder / f"new{ending}"
    if ending == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), path)
    fitted(run)
    run(f"apply new{ending} --calibrator cal.npz -o out{ending} --drop-missing")
    if ending == ".jsonl":
        found = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    else:
        found = pytest.importorskip("pyarrow.parquet").read_table(folder / "out.parquet").to_pylist()
    expected = load(folder / "cal.npz").predict_proba(np.delete(p, 4, axis=0))
    assert_allclose([[row[name] for name in CLASSES] for row in found], expected, rtol=1e-12)


def test_rows_of_arrays_are_not_dropped_by_apply(run, folder):
    fitted(run)
    np.savez(folder / "new.npz", probs=probabilities(9, 1)[0])
    found = run("apply new.npz --calibrator cal.npz -o out.npz --drop-missing", expected=1).output
    assert "rows cannot be dropped in this format" in found
