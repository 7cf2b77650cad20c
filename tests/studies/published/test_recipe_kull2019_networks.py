"""The study of networks in Kull et al. (2019): its own code, the columns that agree to all digits, and what its page says."""

import csv
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibrant import DirichletCalibration, MatrixScaling, Predictions
from calibrant.studies import Store, plan, read_recipe, run
from calibrant.studies.own_code import load_object
from data import DATA_FOLDER, load

FOLDER = Path(__file__).parents[3] / "studies" / "kull2019-networks"
RESULTS = FOLDER / "results" / "tables"
NETWORKS = ["c10_convnet", "c10_densenet40", "c10_resnet110", "c100_convnet"]
MEASURES = {13: "log_loss", 14: "brier", 15: "conf_ece", 16: "cw_ece", 17: "mce", 18: "error"}

OfPlainSums = load_object("plain_sums.py:OfPlainSums", FOLDER)
divided = load_object("pretrained.py:divided", FOLDER)


def printed(number):
    """Return (network, calibrator) -> what a table of the paper prints."""
    with (FOLDER / "figures" / f"table_{number}.csv").open(newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return {(row["data"], name): cell for row in rows for name, cell in row.items() if name != "data"}


def found(name):
    """Return the lines of a table of ours that the paper has too, for the networks at hand."""
    with (RESULTS / f"{name}.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["data"] in NETWORKS and row["paper"]]


@pytest.fixture(scope="module")
def sample():
    """Return logits of four classes, three times as sure as they should be, and labels."""
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(600, 4))
    labels = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    return Predictions.from_logits(3 * logits), labels


def test_recipe_has_all_networks_of_the_paper():
    recipe = read_recipe(FOLDER)
    assert [spec.name for spec in recipe.data] == [
        network for network, name in printed(19) if name == "Uncal"
    ]
    assert (
        list(dict.fromkeys(name for _, name in printed(13))) == [spec.name for spec in recipe.calibrators][:6]
    )


def test_uncalibrated_and_temperature_agree_to_all_printed_digits(tmp_path):
    for network in NETWORKS:
        load(f"kull_nn/{network}")  # skips where it is absent
    recipe = read_recipe(FOLDER)
    recipe = replace(
        recipe,
        data=tuple(spec for spec in recipe.data if spec.name in NETWORKS),
        calibrators=recipe.calibrators[:2],
        measures=tuple(spec for spec in recipe.measures if not spec.test),
    )
    wanted = plan(recipe, DATA_FOLDER)
    with Store(tmp_path / "networks.sqlite") as store:
        run(wanted, store)
        records = wanted.records(store)
    assert len(records) == 2 * len(NETWORKS)
    for number, measure in MEASURES.items():
        figures = printed(number)
        for record in records:
            figure = figures[record.labels["data"], record.labels["calibrator"]]
            digits = len(figure.partition(".")[2])
            assert f"{record.values[measure]:.{digits}f}" == figure, (number, record.labels)


@pytest.mark.parametrize("features", ["log-probabilities", "logits"])
def test_strengths_of_plain_sums_times_numbers_of_parameters_are_the_papers(sample, features):
    """lambda sum w^2 is lambda K (K - 1) / (K (K - 1)) sum w^2, and likewise for mu."""
    method = DirichletCalibration if features == "log-probabilities" else MatrixScaling
    fitted = OfPlainSums(features, reg_lambda=[0.01, 0.1], reg_mu=[0.1]).fit(*sample)
    folds = fitted.calibrator_.cv
    same = method("odir", [0.12, 1.2], [0.4], folds).fit(*sample)
    assert fitted.predict_proba(sample[0]) == pytest.approx(same.predict_proba(sample[0]), abs=1e-12)
    assert fitted.reg_lambda_ == pytest.approx(same.reg_lambda_ / 12)
    assert fitted.reg_mu_ == pytest.approx(0.1)


def test_off_diagonal_is_zero_when_asked_for(sample):
    fitted = OfPlainSums("logits", zero_off_diagonal=True, reg_lambda=[0.001], reg_mu=[0.1]).fit(*sample)
    weights = fitted.calibrator_.fold_weights_
    assert len(weights) == 5
    assert (weights[:, ~np.eye(4, dtype=bool)] == 0).all()
    assert (weights[:, np.eye(4, dtype=bool)] != 0).all()


def test_networks_of_others_are_divided_as_in_the_program(tmp_path):
    """The first rows of a permutation are test rows, the others calibration rows."""
    generator = np.random.default_rng(0)
    logits, labels = generator.normal(size=(6000, 3)), generator.integers(3, size=(6000, 1))
    (tmp_path / "pair.p").write_bytes(pickle.dumps((logits, labels)))
    data = divided(seed=7, data_folder=tmp_path, file="pair.p")
    order = np.random.RandomState(15).permutation(6000)
    assert data.test.labels.tolist() == labels[order[:1000], 0].tolist()
    assert data.calibration.labels.tolist() == labels[order[1000:], 0].tolist()
    assert data.test.predictions.logits == pytest.approx(logits[order[:1000]], abs=1e-6)


def test_division_is_that_of_the_published_convnet():
    arrays = load("kull_nn/c10_convnet")
    order = np.random.RandomState(15).permutation(10_000)
    assert arrays["test_idx"].tolist() == order[:5000].tolist()
    assert arrays["val_idx"].tolist() == order[5000:].tolist()


@pytest.mark.parametrize("number", MEASURES)
def test_published_page_agrees_to_all_digits_without_calibration_and_with_a_temperature(number):
    half = 0.5 * 10.0 ** -(2 if number == 18 else 5)
    rows = [row for row in found(f"table-{number}") if row["calibrator"] in ("Uncal", "TempS")]
    assert len(rows) == 2 * len(NETWORKS)
    for row in rows:
        assert abs(float(row["difference"])) <= half * 1.0001, row


def test_published_page_is_close_in_log_loss_for_ten_classes():
    """Optimum against early stopping: nowhere more than 0.0006 nats."""
    rows = [row for row in found("table-13") if row["data"].startswith("c10_")]
    assert len(rows) == 18
    assert max(abs(float(row["difference"])) for row in rows) < 6e-4
