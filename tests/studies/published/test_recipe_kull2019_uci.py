"""The study of UCI data in Kull et al. (2019): its recipe, its own code, and what its page says."""

import csv
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from calibrant import DirichletCalibration
from calibrant.studies import Results, Store, import_units, plan, read_recipe
from calibrant.studies.own_code import load_object
from calibrant.studies.tables import make_table
from data import DATA_FOLDER, load

FOLDER = Path(__file__).parents[3] / "studies" / "kull2019-uci"
CHOICES = FOLDER / "kull2019-uci-choices.toml"

DirichletWithFloor = load_object("with_floor.py:DirichletWithFloor", FOLDER)
PlainL2 = load_object("plain_l2.py:PlainL2", FOLDER)
RealAdaBoost = load_object("real_adaboost.py:RealAdaBoost", FOLDER)


def lines_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def first_column(name):
    return [next(iter(line.values())) for line in lines_of(FOLDER / "figures" / name)]


def test_recipe_crosses_what_the_paper_crosses():
    recipe = read_recipe(FOLDER)
    assert [spec.name for spec in recipe.classifiers] == first_column("table_06.csv")[:-1]
    assert sorted({spec.name for spec in recipe.data} - {"shuttle"}) == first_column("table_04.csv")
    columns = list(lines_of(FOLDER / "figures" / "table_06.csv")[0])[1:]
    names = [spec.name for spec in recipe.calibrators]
    assert names[: len(columns)] == columns
    assert all(name.removesuffix("-tiny") in columns for name in names[len(columns) :])
    splits = recipe.splits_of(recipe.data[0])
    assert (splits.repeats, splits.folds, splits.inner, splits.combine) == (5, 5, 3, "average")


def test_columns_with_the_floors_of_the_program_differ_in_the_floor_only():
    specs = {spec.name: spec for spec in read_recipe(FOLDER).calibrators}
    floors = {name: spec.parameters["floor"] for name, spec in specs.items() if name.endswith("-tiny")}
    assert floors == {f"{name}-tiny": 2.2e-308 for name in ("DirL2", "DirODIR", "TempS", "VecS")} | {
        "Beta-tiny": 2.2e-16
    }
    for name in ("DirL2", "DirODIR"):
        assert specs[f"{name}-tiny"].grid == specs[name].grid
        assert specs[f"{name}-tiny"].select == specs[name].select


@pytest.mark.parametrize("penalty", ["l2", "odir"])
def test_a_dirichlet_map_with_the_default_floor_is_the_one_without(penalty):
    """On rows without zeros no floor matters."""
    generator = np.random.default_rng(2)
    p = generator.dirichlet([1, 1, 1], 200)
    y = np.array([generator.choice(3, p=row) for row in p])
    plain = (
        PlainL2(reg_lambda=0.02) if penalty == "l2" else DirichletCalibration(reg_lambda=0.02, reg_mu=0.02)
    )
    floored = DirichletWithFloor(2.2e-308, penalty, reg_lambda=0.02)
    np.testing.assert_allclose(
        floored.fit(p, y).predict_proba(p), plain.fit(p, y).predict_proba(p), atol=1e-9
    )


@pytest.mark.parametrize("number", [1, 2])
def test_tables_of_the_main_paper_rank_seven_methods(number):
    """Ranks 1 to 7 add up to 28, but for the rounding of seven numbers to one digit."""
    for line in lines_of(FOLDER / "figures" / f"main_table_{number}.csv"):
        ranks = [float(text) for name, text in line.items() if name != "classifier"]
        assert sum(ranks) == pytest.approx(28, abs=0.35)


def test_grids_are_those_of_the_program():
    grids = {spec.name: spec.grid for spec in read_recipe(FOLDER).calibrators if spec.grid}
    assert grids["DirL2"]["reg_lambda"] == [10.0**power for power in range(3, -8, -1)]
    assert grids["DirODIR"]["reg_lambda"] == grids["DirODIR"]["reg_mu"] == [1e3, 1e1, 1e-1, 1e-3, 1e-5, 1e-7]
    assert grids["FreqB"] == grids["WidthB"] == {"n_bins": [5, 10, 15, 20, 25, 30]}


def test_smaller_forms_are_parts_of_the_whole_and_of_the_choices():
    load("uci/waveform-5000")  # skips where data are absent
    small = {unit.key for unit in plan(read_recipe(FOLDER, "small"), DATA_FOLDER).units}
    choices = {unit.key for unit in plan(read_recipe(CHOICES), DATA_FOLDER).units}
    assert len(small) == 8 * 4 * 9 * 5
    assert small < choices


def test_plain_penalty_is_that_of_ridge_regression_on_logarithms():
    """With a column of ones in the place of the intercept, which scikit-learn leaves without a penalty."""
    generator = np.random.default_rng(1)
    p = generator.dirichlet([0.5, 0.8, 0.9], 400)
    y = np.array([generator.choice(3, p=row) for row in p**0.5 / (p**0.5).sum(axis=1, keepdims=True)])
    fitted = PlainL2(reg_lambda=0.02).fit(p, y)
    features = np.column_stack([np.log(p), np.ones(len(p))])
    ridge = LogisticRegression(C=1 / (2 * 0.02 * len(p)), fit_intercept=False, tol=1e-10, max_iter=10_000)
    expected = ridge.fit(features, y).predict_proba(features)
    assert fitted.predict_proba(p) == pytest.approx(expected, abs=1e-5)


@pytest.fixture(scope="module")
def noisy():
    """Return rows of which a tenth have a random label, so that no leaf is pure."""
    generator = np.random.default_rng(2)
    features = generator.normal(size=(400, 3))
    labels = (features[:, 0] + features[:, 1] > 0).astype(int)
    return features, np.where(generator.random(400) < 0.1, generator.integers(2, size=400), labels)


def test_boosted_probabilities_are_the_geometric_mean_of_the_trees(noisy):
    X, y = noisy
    fitted = RealAdaBoost(n_estimators=20, random_state=0).fit(X, y)
    trees = np.array([tree.predict_proba(X) for tree in fitted.estimators_])
    mean = np.exp(np.log(np.maximum(trees, np.finfo(float).eps)).mean(axis=0))
    assert fitted.predict_proba(X) == pytest.approx(mean / mean.sum(axis=1, keepdims=True), abs=1e-12)
    # The sum of two features takes more than one cut.
    one = RealAdaBoost(n_estimators=1, random_state=0).fit(X, y)
    assert fitted.score(X, y) > one.score(X, y) + 0.1


def test_second_tree_sees_the_weights_of_the_algorithm(noisy):
    """For two classes a row counts by the root of the odds against its class, so leaves hold shares of these."""
    X, y = noisy
    first, second = RealAdaBoost(n_estimators=2, random_state=0).fit(X, y).estimators_
    p = first.predict_proba(X)
    rows = np.arange(len(y))
    weights = np.sqrt(p[rows, 1 - y] / p[rows, y])
    for leaf in np.unique(second.apply(X)):
        inside = second.apply(X) == leaf
        share = weights[inside] @ y[inside] / weights[inside].sum()
        assert second.predict_proba(X[inside])[:, 1] == pytest.approx(share)


def test_boosting_stops_at_a_tree_without_mistakes():
    fitted = RealAdaBoost(random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    assert len(fitted.estimators_) == 1
    assert fitted.predict([[0.5], [2.5]]).tolist() == [0, 1]


@pytest.mark.parametrize("classifier", ["lda", "logistic", "nbayes"])
def test_published_page_has_the_l2_penalty_first_by_log_loss(classifier):
    """As in Table 6 of the supplement."""
    rows = [
        row
        for row in lines_of(FOLDER / "results" / "small" / "tables" / "table-06.csv")
        if row["classifier"] == classifier
    ]
    ranks = {row["calibrator"]: float(row["ours"]) for row in rows}
    assert min(ranks, key=ranks.get) == "DirL2"


def test_what_the_page_says_of_table_4():
    with (FOLDER / "results" / "table-4" / "tables" / "table-04.csv").open(newline="") as file:
        cells = list(csv.DictReader(line for line in file if not line.startswith("#")))
    losses = [row for row in cells if row["data"] != "average rank"]
    assert len(losses) == 180
    assert sum(abs(float(row["ours"]) - float(row["paper"])) <= 0.025 for row in losses) == 139


@pytest.mark.skipif(not (DATA_FOLDER / "uci").is_dir(), reason="the UCI data are not in CALIBRANT_DATA")
def test_stored_units_give_the_published_tables(tmp_path):
    """So a run on another machine continues from them."""
    recipe = read_recipe(FOLDER, form="both-floors")
    planned = plan(recipe, DATA_FOLDER)
    with Store(tmp_path / "uci.sqlite") as store:
        found = import_units(planned, store, FOLDER / "results" / "units.csv.xz")
        results = Results(planned, planned.records(store))
    assert found.added == len(planned.units)
    assert results.counts()["open"] == 0
    for table in recipe.tables:
        if table.name in ("table-06", "table-06-tiny", "table-12"):
            written = FOLDER / "results" / "both-floors" / "tables" / f"{table.name}.csv"
            assert make_table(results, table, FOLDER).to_csv() == written.read_text(), table.name
