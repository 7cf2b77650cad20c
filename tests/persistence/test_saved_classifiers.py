"""CalibratedClassifier.save and load: folder or file, by skops or by a function of the user, and never by pickle."""

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from calibrant import CalibratedClassifier, VectorScaling
from calibrant.errors import CalibrationWarning, FileFormatError, MissingExtraError

X, Y = load_breast_cancer(return_X_y=True)
X = X[:, :5]
WORDS = np.array(["benign", "malign"])[Y]


def halved(X):
    return X / 2


@pytest.fixture
def skops():
    return pytest.importorskip("skops.io", reason="skops is not installed; pip install 'calibrant[skops]'")


def fitted(estimator=None, y=WORDS, **options) -> CalibratedClassifier:
    estimator = GaussianNB() if estimator is None else estimator
    return CalibratedClassifier(estimator, **{"method": "temperature", "cv": 2, **options}).fit(X, y)


CASES = {
    "ensemble": fitted,
    "one pair": lambda: fitted(ensemble=False),
    "pipeline": lambda: fitted(make_pipeline(StandardScaler(), LogisticRegression()), cv=3),
    "frozen": lambda: fitted(FrozenEstimator(GaussianNB().fit(X, WORDS))),
    "decision values": lambda: fitted(LogisticRegression(max_iter=5000), response="decision_function"),
    "calibrator": lambda: fitted(method=VectorScaling(bias=False)),
    "integers": lambda: fitted(y=Y + 3),
    "booleans": lambda: fitted(y=Y.astype(bool)),
    "floats": lambda: fitted(y=Y.astype(float)),
    "objects": lambda: fitted(y=WORDS.astype(object)),
}


@pytest.mark.usefixtures("skops")
@pytest.mark.parametrize("place", ["folder", "file.zip"])
@pytest.mark.parametrize("case", CASES)
def test_what_comes_back_is_the_same(case, place, tmp_path):
    classifier = CASES[case]()
    classifier.save(tmp_path / place)
    loaded = CalibratedClassifier.load(tmp_path / place)
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), classifier.predict(X))
    assert loaded.classes_.dtype == classifier.classes_.dtype
    assert str(loaded) == str(classifier)
    assert (tmp_path / place).is_dir() == (place == "folder")
    assert [path.name for path in tmp_path.iterdir()] == [place]
    again = loaded.fit(X, WORDS)
    np.testing.assert_array_equal(again.predict_proba(X), CASES[case]().fit(X, WORDS).predict_proba(X))


def test_estimators_by_functions_of_the_user(tmp_path):
    """Here as text; no other package takes part."""

    def write(estimator, path):
        numbers = {name: getattr(estimator, name).tolist() for name in ("theta_", "var_", "class_prior_")}
        path.write_text(json.dumps(numbers))

    def read(path):
        estimator = GaussianNB()
        for name, numbers in json.loads(path.read_text()).items():
            setattr(estimator, name, np.array(numbers))
        estimator.classes_ = np.unique(WORDS)
        return estimator

    classifier = fitted()
    classifier.save(tmp_path / "classifier.zip", write=write)
    loaded = CalibratedClassifier.load(tmp_path / "classifier.zip", read=read)
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    with pytest.raises(
        FileFormatError, match=r"stored by a function of the user; pass its counterpart as read="
    ):
        CalibratedClassifier.load(tmp_path / "classifier.zip")


def test_a_function_that_writes_nothing(tmp_path):
    with pytest.raises(
        FileFormatError, match=r"write must store the estimator in the file.*but there is none"
    ):
        fitted().save(tmp_path / "folder", write=lambda *_: None)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("skops")
def test_types_that_nobody_vouched_for_are_named_and_not_loaded(tmp_path):
    fitted(make_pipeline(FunctionTransformer(halved), GaussianNB())).save(tmp_path / "folder")
    name = f"{halved.__module__}.halved"
    with pytest.raises(
        FileFormatError, match=rf"does not trust: \['{name}'\]; if you trust them, pass trusted="
    ):
        CalibratedClassifier.load(tmp_path / "folder")
    loaded = CalibratedClassifier.load(tmp_path / "folder", trusted=[name])
    assert loaded.predict(X).shape == Y.shape


@pytest.mark.usefixtures("skops")
def test_a_second_classifier_takes_the_place_of_the_first(tmp_path):
    for place in ("folder", "file.zip"):
        fitted().save(tmp_path / place)
        fitted(ensemble=False).save(tmp_path / place)
        assert len(CalibratedClassifier.load(tmp_path / place).calibrated_pairs_) == 1
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == [
        "calibrator_0.npz",
        "classifier.json",
        "estimator_0",
    ]


def test_a_folder_of_something_else_stays_as_it_is(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for target in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(
            FileFormatError, match=r"exists already and is not a saved classifier; choose another"
        ):
            fitted().save(target)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.usefixtures("skops")
def test_a_splitter_cannot_be_stored_and_a_warning_says_so(tmp_path):
    classifier = fitted(cv=StratifiedKFold(2))
    with pytest.warns(
        CalibrationWarning, match=r"cv is of type StratifiedKFold.*default 5 is saved"
    ) as warned:
        classifier.save(tmp_path / "folder")
    assert warned[0].filename == __file__
    assert CalibratedClassifier.load(tmp_path / "folder").cv == 5


def test_without_skops_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    with pytest.raises(MissingExtraError, match=r"skops is required.*calibrant\[skops\]"):
        fitted().save(tmp_path / "folder")


def test_there_must_be_something_to_save(tmp_path):
    with pytest.raises(NotFittedError, match=r"nothing to save"):
        CalibratedClassifier(GaussianNB()).save(tmp_path / "folder")


@pytest.mark.usefixtures("skops")
def test_nothing_is_a_pickle(tmp_path):
    fitted().save(tmp_path / "folder")
    for path in (tmp_path / "folder").iterdir():
        assert path.read_bytes()[:2] in (b"PK", b'{"')
        if path.suffix != ".json":
            with zipfile.ZipFile(path) as archive:
                assert {Path(name).suffix for name in archive.namelist()} <= {".json", ".npy"}


def changed_header(**changes):
    def change(folder):
        header = json.loads((folder / "classifier.json").read_text())
        (folder / "classifier.json").write_text(json.dumps({**header, **changes}))

    return change


DAMAGES = {
    "no header": (lambda folder: (folder / "classifier.json").unlink(), r"classifier\.json is missing"),
    "no JSON": (lambda folder: (folder / "classifier.json").write_text("{"), r"is not valid JSON"),
    "a pair too few": (lambda folder: (folder / "estimator_1").unlink(), r"estimator_1 is missing"),
    "no estimator": (lambda folder: (folder / "estimator_0").write_text("?"), r"skops cannot read"),
    "no calibrator": (lambda folder: (folder / "calibrator_0.npz").write_text("?"), r"not a zip archive"),
    "another format": (changed_header(format="pickle"), r"names another format"),
    "the future": (changed_header(schema_version=2), r"newer calibrant \(schema 2; this version reads 1\)"),
    "no version": (changed_header(schema_version="1"), r"version '1' is invalid"),
    "no pairs": (changed_header(n_pairs=0), r"unexpected keys or values"),
    "a method of one's own": (changed_header(response="__reduce__"), r"unexpected keys or values"),
    "one class more": (
        changed_header(classes={"dtype": "<i8", "labels": [0, 1, 2]}),
        r"another number of classes",
    ),
    "no classes": (changed_header(classes={"dtype": "<M8", "labels": "?"}), r"classes are invalid"),
    "a key more": (changed_header(surprise=1), r"unexpected keys or values"),
}


@pytest.mark.usefixtures("skops")
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_one_sentence(damage, tmp_path):
    act, message = DAMAGES[damage]
    fitted().save(tmp_path / "folder")
    act(tmp_path / "folder")
    with pytest.raises(FileFormatError, match=message) as raised:
        CalibratedClassifier.load(tmp_path / "folder")
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path / "folder"))


@pytest.mark.usefixtures("skops")
def test_compressed_members_and_other_files_are_refused(tmp_path):
    fitted().save(tmp_path / "file.zip")
    with zipfile.ZipFile(tmp_path / "file.zip") as given, zipfile.ZipFile(tmp_path / "bomb.zip", "w") as bomb:
        for name in given.namelist():
            bomb.writestr(name, given.read(name), zipfile.ZIP_DEFLATED)
    with pytest.raises(FileFormatError, match=r"compressed form, which is not allowed"):
        CalibratedClassifier.load(tmp_path / "bomb.zip")
    (tmp_path / "text").write_text("?")
    with pytest.raises(FileFormatError, match=r"is neither a folder nor a zip file"):
        CalibratedClassifier.load(tmp_path / "text")
    with pytest.raises(FileNotFoundError):
        CalibratedClassifier.load(tmp_path / "nowhere")
