"""The benchmark on CalArena's files, on a small file of their layout."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

h5py = pytest.importorskip("h5py", reason="CalArena's files are in the HDF5 format, which h5py reads")

ROOT = Path(__file__).parents[1]
BROKEN = {
    "no-labels": "has no labels_cal and no labels_test",
    "too-few": "has 3 labels_cal for 40 rows",
    "negative": "has invalid probas_cal",
    "unknown-class": "has labels_cal that are no columns from 0 to 2",
}


@pytest.fixture
def calarena(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import calarena

    return calarena


def arrays(n_classes, dtype=np.float32, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.ones(n_classes), size=80).astype(dtype)
    labels = (np.log(p) / 2 + generator.gumbel(size=p.shape)).argmax(axis=1)
    return {
        "probas_cal": p[:40],
        "labels_cal": labels[:40],
        "probas_test": p[40:],
        "labels_test": labels[40:],
    }


def write(path, groups):
    with h5py.File(path, "w") as file:
        for name, content in groups.items():
            group = file.create_group(name)
            for array, values in content.items():
                group[array] = values


def one_column(content):
    return {name: values[:, 1] if name.startswith("probas") else values for name, values in content.items()}


def broken_groups():
    good = arrays(3)
    negative = good["probas_cal"].copy()
    negative[0] = -0.5, 1.0, 0.5
    return {
        "bad/no-labels": {name: good[name] for name in ("probas_cal", "probas_test")},
        "bad/too-few": {**good, "labels_cal": good["labels_cal"][:3]},
        "bad/negative": {**good, "probas_cal": negative},
        "bad/unknown-class": {**good, "labels_cal": np.full(40, 3)},
    }


def test_binary_probabilities_have_one_column_or_two(calarena, tmp_path):
    both = arrays(2)
    write(tmp_path / "cv-binary.h5", {"a/two": both, "b/one": one_column(both)})
    two, one = (key.load() for key in calarena.keys_of(tmp_path / "cv-binary.h5"))
    assert (two.name, one.set) == ("cv-binary/a/two", "cv-binary/b")
    assert two.calibration.probabilities.dtype == np.float32
    np.testing.assert_allclose(one.test.probabilities, two.test.probabilities, atol=1e-6)
    np.testing.assert_array_equal(one.test_labels, both["labels_test"])


def test_a_broken_group_is_reported_and_the_others_go_on(calarena, tmp_path, capsys):
    write(tmp_path / "t-multiclass.h5", {"good/model": arrays(3), **broken_groups()})
    keys = calarena.keys_of(tmp_path / "t-multiclass.h5")
    assert [key.name for key in calarena.readable(keys, ["auto"], {})] == ["t-multiclass/good/model"]
    told = capsys.readouterr().err
    for name, message in BROKEN.items():
        assert f"t-multiclass/bad/{name} {message}" in told


def test_published_scores_are_found_by_benchmark_data_set_and_model(calarena, tmp_path):
    write(tmp_path / "x-multiclass.h5", {"a/m": arrays(3), "b/m": arrays(3)})
    folder = tmp_path / "results" / "x-multiclass"
    folder.mkdir(parents=True)
    (folder / "SMS.csv").write_text(
        "dataset,model,cal_size,test_size,n_classes,SMS_brier,SMS_logloss,SMS_ece-15,SMS_accuracy,SMS_time\n"
        "a,m,40,40,3,0.5,0.9,0.02,0.7,0.1\nc,m,40,40,3,0.5,0.9,0.02,0.7,0.1\n"
    )
    found = calarena.published(tmp_path / "results", calarena.keys_of(tmp_path / "x-multiclass.h5"))
    assert list(found) == [("x-multiclass/a/m", "SMS, published")]
    (record,) = found.values()
    assert (record["log_loss"], record["brier"], record["confidence_ece"]) == (0.9, 0.5, 0.02)


def test_win_rates_are_shares_of_the_other_methods(calarena):
    """On the tasks of two sets, A beats both others, then one; C beats none, then one, where it is level with B."""
    keys = [calarena.ArenaKey("x/a", 0, model="m"), calarena.ArenaKey("x/b", 0, model="m")]
    losses = {"uncalibrated": (0.2, 0.2), "A": (0.1, 0.15), "C": (0.3, 0.15)}
    found = {
        (key.name, method): {"brier": loss, "log_loss": loss}
        for method, both in losses.items()
        for key, loss in zip(keys, both, strict=True)
    }
    rates = calarena.win_rates(calarena.Study.of(found, keys, []), "brier")
    assert {method: rate[0] for method, rate in rates.items()} == {"A": 0.75, "C": 0.25, "uncalibrated": 0.25}
    assert rates["A"][1:] == (0.5, 1.0)


def test_half_a_line_of_an_interrupted_run_is_removed(calarena, tmp_path):
    results = calarena.Results(tmp_path)
    results.add({"task": "t", "method": "m", "status": "done"})
    with results.path.open("a") as file:
        file.write('{"task": "u", "met')
    calarena.mend(results)
    results.add({"task": "u", "method": "m", "status": "done"})
    assert set(results.read()) == {("t", "m"), ("u", "m")}


def test_a_missing_library_is_named(calarena, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(SystemExit, match="install h5py"):
        calarena.h5py()


@pytest.mark.slow
def test_a_run_goes_on_where_it_was(tmp_path):
    write(
        tmp_path / "tiny-multiclass.h5",
        {"a/m": arrays(3), "b/m": arrays(3, np.float64, 1), **broken_groups()},
    )
    folder = tmp_path / "results" / "tiny-multiclass"
    folder.mkdir(parents=True)
    (folder / "SMS.csv").write_text(
        "dataset,model,SMS_brier,SMS_logloss,SMS_accuracy,SMS_time\na,m,0.5,0.9,0.7,0.1\nb,m,0.5,0.9,0.7,0.1\n"
    )

    def ran(*methods):
        command = [
            sys.executable,
            ROOT / "benchmarks" / "calarena.py",
            tmp_path,
            "--jobs",
            "1",
            "--cache",
            tmp_path,
        ]
        command += ["--published", tmp_path / "results", "--methods", *methods]
        return subprocess.run(command, capture_output=True, text=True, check=True)

    first = ran("temperature")
    assert "4 of 4 fits are to be done" in first.stderr
    assert "| `SMS, published` |" in first.stdout
    second = ran("temperature", "vector")
    assert "2 of 6 fits are to be done" in second.stderr
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    assert len({(json.loads(line)["task"], json.loads(line)["method"]) for line in lines}) == len(lines) == 6
