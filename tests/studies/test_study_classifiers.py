"""Base classifiers of studies."""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from calibrant.errors import MissingExtraError, RecipeError, StudyError
from calibrant.studies.classifiers import (
    CLASSIFIERS,
    EncodedLabels,
    PairwiseSVC,
    SmallClassQDA,
    check_classifier,
    coupled,
    make_classifier,
    scores_of,
    trained,
)
from calibrant.studies.specifications import ClassifierSpec

HERE = Path()
QUICK = {
    "forest": {"n_estimators": 10},
    "adas": {"n_estimators": 10},
    "mlp": {"max_iter": 20},
    "boosting": {"max_iter": 5},
    "xgboost": {"n_estimators": 5},
}


def blobs(n_rows=90, n_classes=3, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.arange(n_rows) % n_classes
    centres = generator.normal(0.0, 2.0, (n_classes, 4))
    return generator.normal(size=(n_rows, 4)) + centres[labels], labels.astype(np.intp)


def fitted_scores(name, seed=0, n_classes=3, rows=slice(None), **parameters):
    X, y = blobs()
    spec = ClassifierSpec(name, name, {**QUICK.get(name, {}), **parameters})
    return scores_of(spec, trained(spec, seed, HERE, X[rows], y[rows]), X, n_classes).probabilities


@pytest.fixture(autouse=True)
def xgboost_is_optional(request):
    if "xgboost" in request.node.name.rpartition("[")[2]:
        pytest.importorskip("xgboost")


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_all_give_probabilities_and_know_something(name):
    """Three clouds that hardly overlap; warnings are errors here."""
    _, y = blobs()
    probabilities = fitted_scores(name)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (probabilities.argmax(axis=1) == y).mean() > 0.6


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_what_is_random_comes_from_the_seed(name):
    assert np.array_equal(fitted_scores(name, seed=3), fitted_scores(name, seed=3))


def test_another_seed_is_another_forest():
    assert not np.array_equal(fitted_scores("forest", seed=3), fitted_scores("forest", seed=4))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_class_without_rows_keeps_its_column(name):
    """Rows of class 1 are left out; its column is zero, and the others still sum to one."""
    _, y = blobs()
    probabilities = fitted_scores(name, rows=np.flatnonzero(y != 1))
    assert probabilities.shape == (90, 3)
    assert (probabilities[:, 1] == 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_the_parameters_of_the_programs():
    names = CLASSIFIERS.keys() - {"xgboost"}
    made = {name: make_classifier(ClassifierSpec(name, name), 7, HERE).get_params() for name in names}
    assert made["forest"]["n_estimators"] == made["adas"]["n_estimators"] == 200
    assert made["knn"]["n_neighbors"] == 3
    assert made["tree"]["max_depth"] == 5
    assert made["qda"]["reg_param"] == 0.1
    assert (made["svc-linear"]["kernel"], made["svc-linear"]["C"]) == ("linear", 0.025)
    assert (made["svc-rbf"]["gamma"], made["svc-rbf"]["C"]) == (2.0, 1.0)
    assert made["logistic"]["estimator__solver"] == "liblinear"
    assert {made[name].get("random_state") for name in ("forest", "adas", "mlp", "tree", "svc-rbf")} == {7}


def test_the_parameters_of_xgboost():
    pytest.importorskip("xgboost")
    made = make_classifier(ClassifierSpec("x", "xgboost", {"max_depth": 5}), 7, HERE).get_params()
    assert (made["estimator__n_estimators"], made["estimator__max_depth"]) == (100, 5)
    assert (made["estimator__random_state"], made["estimator__n_jobs"]) == (7, 1)


def test_xgboost_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtraError, match=r"xgboost is required .* pip install 'calibrant\[xgboost\]'"):
        check_classifier(ClassifierSpec("x", "xgboost"), HERE)


def test_encoded_labels_need_not_be_numbers_in_a_row():
    X, y = blobs()
    encoded = EncodedLabels(LogisticRegression()).fit(X, y * 3 + 1)
    assert encoded.classes_.tolist() == [1, 4, 7]
    np.testing.assert_array_equal(encoded.predict(X), 3 * LogisticRegression().fit(X, y).predict(X) + 1)


def test_a_random_state_of_the_recipe_stays():
    spec = ClassifierSpec("f", "forest", {"random_state": 42})
    assert make_classifier(spec, 7, HERE).random_state == 42


def test_classifiers_of_other_packages_and_files(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "class Shares:\n"
        "    def __init__(self, extra=0.0):\n        self.extra = extra\n"
        "    def fit(self, X, y):\n"
        "        self.classes_, n = np.unique(y, return_counts=True)\n"
        "        self.shares = n / n.sum() + self.extra\n        return self\n"
        "    def predict_proba(self, X):\n        return np.tile(self.shares, (len(X), 1))\n"
    )
    X, y = blobs()
    own = ClassifierSpec("own", "mine.py:Shares")
    check_classifier(own, tmp_path)
    np.testing.assert_allclose(scores_of(own, trained(own, 0, tmp_path, X, y), X, 3).probabilities, 1 / 3)
    off = ClassifierSpec("off", "mine.py:Shares", {"extra": 0.5})
    with pytest.raises(StudyError, match="classifier 'off': rows must sum to 1"):
        scores_of(off, trained(off, 0, tmp_path, X, y), X, 3)
    theirs = make_classifier(
        ClassifierSpec("lr", "sklearn.linear_model:LogisticRegression", {"C": 2.0}), 5, HERE
    )
    assert isinstance(theirs, LogisticRegression)
    assert (theirs.C, theirs.random_state) == (2.0, 5)


@pytest.mark.parametrize(
    ("estimator", "parameters", "words"),
    [
        ("forrest", {}, "did you mean 'forest'?"),
        ("zzz", {}, "known are"),
        ("knn", {"neighbours": 3}, "cannot be created"),
        ("absent.py:Class", {}, "there is no file absent.py"),
        ("sklearn.svm:Nothing", {}, "there is no 'Nothing'"),
        ("no_such_package.module:Class", {}, "cannot be imported"),
        ("sklearn.cluster:KMeans", {}, "no fit and predict_proba"),
        (":Class", {}, "file.py:name"),
    ],
)
def test_complaints(estimator, parameters, words):
    with pytest.raises(RecipeError) as caught:
        check_classifier(ClassifierSpec("c", estimator, parameters), HERE)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_coupling_of_consistent_pairs_is_exact():
    """If the pairs are p_i / (p_i + p_j), the coupled probabilities are p."""
    p = np.random.default_rng(0).dirichlet([1.0] * 5, 20)
    pairs = np.column_stack([p[:, i] / (p[:, i] + p[:, j]) for i in range(5) for j in range(i + 1, 5)])
    np.testing.assert_allclose(coupled(pairs, 5), p, rtol=1e-8)


def test_pairwise_machines_point_the_right_way():
    """Two classes are a case of their own in scikit-learn."""
    for n_classes in (2, 4):
        X, y = blobs(120, n_classes, seed=1)
        assert (PairwiseSVC().fit(X, y).predict(X) == y).mean() > 0.8


def test_quadratic_discriminants_are_those_of_scikit_learn():
    """With their covariance, which is divided by n - 1 until scikit-learn 1.7, as ours is, and by n later."""
    X, y = blobs(300)
    ours = SmallClassQDA(reg_param=0.0).fit(X, y)
    theirs = QuadraticDiscriminantAnalysis(store_covariance=True).fit(X, y)
    [divisor] = {
        n for n in (99, 100) if np.allclose(theirs.covariance_[0], np.cov(X[y == 0].T) * 99 / n, rtol=1e-6)
    }
    ours.scalings_ = [variances * 99 / divisor for variances in ours.scalings_]
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-6, atol=1e-12)


def test_quadratic_discriminants_of_few_rows():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(12, 30)), np.arange(12) % 3
    X[np.arange(12), y] += 20
    assert (SmallClassQDA(0.1).fit(X, y).predict(X) == y).all()
