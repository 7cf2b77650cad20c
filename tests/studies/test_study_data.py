"""Data sets of studies: every layout, and every complaint in one sentence."""

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.errors import RecipeError, StudyDataError
from calibrant.studies.data import StudyData
from calibrant.studies.sources import AbsentDataError, find_source, fingerprint, load
from calibrant.studies.specifications import DataSpec
from calibrant.synthetic import SyntheticTask, TemperatureMap

LOGITS = np.array([[2.0, 0.0, -1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0], [1.0, 1.0, 1.5]], dtype=np.float32)
PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.3, 0.3, 0.4]])
LABELS = np.array([0, 1, 2, 2])

GENERATOR = """
import numpy as np
from calibrant.studies.data import StudyData

def rows(*, seed, data_folder, n_rows=50):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet([1, 1, 1], n_rows)
    return StudyData.from_scores(p, generator.integers(3, size=n_rows), truth=p)

def nothing(*, seed, data_folder):
    return None
"""


def loaded(folder, kind, source, seed=0, **options):
    return load(DataSpec("set", kind, source, options), folder, folder, seed)


def complaint(folder, kind, source, **options):
    with pytest.raises(StudyDataError) as caught:
        loaded(folder, kind, source, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    return text


def test_divided_scores_keep_their_float_type(tmp_path):
    np.savez(tmp_path / "s.npz", val_logits=LOGITS, val_y=LABELS, test_logits=LOGITS[:2], test_y=LABELS[:2])
    data = loaded(tmp_path, "scores", "s.npz")
    assert str(data.calibration.predictions.space) == "logits"
    assert data.calibration.predictions.scores.dtype == np.float32
    assert len(data.test) == 2
    assert np.array_equal(data.all_rows().labels, [0, 1, 2, 2, 0, 1])
    assert np.array_equal(data.all_rows().predictions.scores, np.vstack([LOGITS, LOGITS[:2]]))


@pytest.mark.parametrize("name", ["probs", "probabilities", "p"])
def test_undivided_probabilities(tmp_path, name):
    np.savez(tmp_path / "s.npz", **{name: PROBABILITIES, "labels": LABELS[:, np.newaxis]})
    data = loaded(tmp_path, "scores", "s.npz")
    assert str(data.rows.predictions.space) == "probabilities"
    assert np.array_equal(data.rows.labels, LABELS)


def test_arrays_by_name_and_votes_for_truth(tmp_path):
    votes = np.array([[8, 1, 1], [0, 5, 5], [1, 0, 3], [1, 1, 0]])
    np.savez(tmp_path / "s.npz", outputs=PROBABILITIES, truth_of=LABELS, votes=votes)
    data = loaded(
        tmp_path,
        "scores",
        "s.npz",
        space="probabilities",
        columns="outputs",
        label="truth_of",
        truth="votes",
    )
    assert data.rows.truth.tolist() == [[0.8, 0.1, 0.1], [0, 0.5, 0.5], [0.25, 0, 0.75], [0.5, 0.5, 0]]


def test_csv_scores_in_one_file_or_two(tmp_path):
    lines = ["animal,p_cat,p_cow,p_dog"]
    names = np.array(["cat", "cow", "dog"])
    lines += [
        f"{names[label]},{','.join(map(str, row))}" for label, row in zip(LABELS, PROBABILITIES, strict=True)
    ]
    for file in ("a.csv", "b.csv"):
        (tmp_path / file).write_text("\n".join(lines))
    options = {"label": "animal", "space": "probabilities"}
    data = loaded(tmp_path, "scores", "a.csv", **options)
    assert np.array_equal(data.rows.labels, LABELS)
    assert data.classes.tolist() == ["cat", "cow", "dog"]
    both = loaded(tmp_path, "scores", "a.csv", test="b.csv", **options)
    assert len(both.calibration) == len(both.test) == 4
    assert "add space = 'probabilities'" in complaint(tmp_path, "scores", "a.csv", label="animal")


def test_features_of_arrays_and_of_tables(tmp_path):
    generator = np.random.default_rng(0)
    X = generator.normal(5.0, 3.0, (20, 3))
    X[:, 2] = 7.0
    y = np.repeat([3, 7], 10)
    np.savez(tmp_path / "f.npz", X=X, y=y)
    table = [
        "a,b,c,kind",
        *(",".join(map(repr, map(float, row))) + f",k{label}" for row, label in zip(X, y, strict=True)),
    ]
    (tmp_path / "f.csv").write_text("\n".join(table))
    data = loaded(tmp_path, "features", "f.npz", standardise=True)
    same = loaded(tmp_path, "features", "f.csv", label="kind", standardise=True)
    assert data.classes.tolist() == [3, 7]
    assert same.classes.tolist() == ["k3", "k7"]
    np.testing.assert_allclose(data.rows.features, same.rows.features, atol=1e-12)
    np.testing.assert_allclose(data.rows.features.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(data.rows.features.std(axis=0), [1, 1, 0], atol=1e-12)


def test_features_with_training_rows_are_standardised_by_them(tmp_path):
    generator = np.random.default_rng(0)
    X, y = generator.normal(2.0, 5.0, (30, 2)), np.tile([0, 1], 15)
    np.savez(tmp_path / "f.npz", X_train=X, y_train=y, X_test=X[:10] + 1, y_test=y[:10])
    data = loaded(tmp_path, "features", "f.npz", standardise=True)
    np.testing.assert_allclose(data.training.features.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(data.rows.features, (X[:10] + 1 - X.mean(axis=0)) / X.std(axis=0))
    assert len(data.every_row()) == 40
    np.savez(tmp_path / "g.npz", X_train=X, y_train=y, X_cal=X[:6], y_cal=y[:6], X_test=X[:10], y_test=y[:10])
    divided = loaded(tmp_path, "features", "g.npz")
    assert (len(divided.training), len(divided.calibration), len(divided.test)) == (30, 6, 10)


def test_top_labels_are_two_classes(tmp_path):
    confidence = np.array([0.9, 0.6, 0.8], dtype=np.float32)
    np.savez(tmp_path / "a.npz", confidence=confidence, pred=np.array([4, 2, 1]), y=np.array([4, 3, 1]))
    np.savez(tmp_path / "b.npz", confidence=confidence, correct=np.array([1, 0, 1], dtype=np.int8))
    for file in ("a.npz", "b.npz"):
        data = loaded(tmp_path, "top-label", file)
        assert data.classes.tolist() == ["wrong", "right"]
        assert data.rows.labels.tolist() == [1, 0, 1]
        np.testing.assert_allclose(data.rows.predictions.probabilities[:, 1], confidence)


def test_generated_rows_come_from_the_seed(tmp_path):
    (tmp_path / "own.py").write_text(GENERATOR)
    spec = DataSpec("g", "generated", "own.py:rows", {"parameters": {"n_rows": 20}})
    one, same, other = (load(spec, None, tmp_path, seed) for seed in (1, 1, 2))
    assert len(one.rows) == 20
    assert np.array_equal(one.rows.labels, same.rows.labels)
    assert not np.array_equal(one.rows.predictions.scores, other.rows.predictions.scores)
    assert find_source(spec, None, tmp_path) is None
    assert "it must return a StudyData" in complaint(tmp_path, "generated", "own.py:nothing")
    with pytest.raises(RecipeError, match="cannot be called with seed, data_folder, n"):
        load(DataSpec("g", "generated", "own.py:rows", {"parameters": {"n": 3}}), None, tmp_path, 0)


def test_fingerprints_follow_content_and_not_names(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(4), y=[0, 1, 0, 1])
    (tmp_path / "b.npz").write_bytes((tmp_path / "a.npz").read_bytes())
    plain = DataSpec("one", "features", "a.npz")
    first = fingerprint(plain, tmp_path, tmp_path)
    other_name = DataSpec(
        "two", "features", "b.npz", labels={"group": "x"}, splits={"repeats": 3}, optional=True
    )
    assert fingerprint(other_name, tmp_path, tmp_path) == first
    assert (
        fingerprint(DataSpec("one", "features", "a.npz", {"standardise": True}), tmp_path, tmp_path) != first
    )
    np.savez(tmp_path / "a.npz", X=2 * np.eye(4), y=[0, 1, 0, 1])
    assert fingerprint(plain, tmp_path, tmp_path) != first


def test_fingerprints_follow_code_and_files_of_generators(tmp_path):
    (tmp_path / "own.py").write_text(GENERATOR)
    (tmp_path / "used.bin").write_bytes(b"1")
    spec = DataSpec("g", "generated", "own.py:rows", {"files": ["used.bin"]})
    seen = [fingerprint(spec, None, tmp_path)]
    (tmp_path / "own.py").write_text(GENERATOR + "\n# changed\n")
    seen.append(fingerprint(spec, None, tmp_path))
    (tmp_path / "used.bin").write_bytes(b"22")
    seen.append(fingerprint(spec, None, tmp_path))
    assert len(set(seen)) == 3
    (tmp_path / "used.bin").unlink()
    with pytest.raises(AbsentDataError, match=r"used\.bin"):
        find_source(spec, None, tmp_path)


def test_absent_files_say_where_they_were_sought(tmp_path):
    with pytest.raises(AbsentDataError) as caught:
        find_source(DataSpec("abalone", "features", "uci/abalone.npz"), tmp_path, tmp_path)
    text = str(caught.value)
    assert "'abalone'" in text
    assert str(tmp_path) in text
    assert "--data" in text
    assert "CALIBRANT_DATA" in text


def test_files_beside_the_recipe_are_found(tmp_path):
    (tmp_path / "recipe").mkdir()
    np.savez(tmp_path / "recipe" / "a.npz", X=np.eye(2), y=[0, 1])
    spec = DataSpec("a", "features", "a.npz")
    assert find_source(spec, tmp_path, tmp_path / "recipe") == tmp_path / "recipe" / "a.npz"


WRONG = {
    "no scores": ({"y": LABELS}, "unclear which are the scores"),
    "two kinds": ({"logits": LOGITS, "probs": PROBABILITIES, "y": LABELS}, "unclear which are the scores"),
    "no labels": ({"logits": LOGITS}, "unclear which are the labels"),
    "nan": ({"logits": np.where(LOGITS > 2, np.nan, LOGITS), "y": LABELS}, "must be finite"),
    "rows that do not sum to one": ({"probs": PROBABILITIES * 1.2, "y": LABELS}, "sum to 1"),
    "label out of range": ({"logits": LOGITS, "y": LABELS + 1}, "row 2 has class 3"),
    "negative label": ({"logits": LOGITS, "y": LABELS - 1}, "row 0 has class -1"),
    "fewer labels": ({"logits": LOGITS, "y": LABELS[:2]}, "labels"),
    "labels of two columns": ({"logits": LOGITS, "y": np.eye(4, dtype=int)}, "one per row"),
    "fractions": ({"logits": LOGITS, "y": LABELS + 0.5}, "fractions"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_scores(tmp_path, case):
    arrays, words = WRONG[case]
    np.savez(tmp_path / "s.npz", **arrays)
    text = complaint(tmp_path, "scores", "s.npz")
    assert words in text
    assert str(tmp_path / "s.npz") in text


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": np.eye(3)}, "X and y"),
        ({"X": np.eye(3), "y": [0, 1]}, "3 rows of features but 2 labels"),
        ({"X": np.eye(3), "y": [1, 1, 1]}, "the same class"),
        ({"X": np.array([[1.0], [np.nan]]), "y": [0, 1]}, "row 1, column 0 is nan"),
        ({"X": np.array([["a"], ["b"]]), "y": [0, 1]}, "encode categories"),
        ({"X": np.zeros(3), "y": [0, 1, 0]}, "numeric matrix"),
    ],
)
def test_wrong_features(tmp_path, arrays, words):
    np.savez(tmp_path / "f.npz", **arrays)
    assert words in complaint(tmp_path, "features", "f.npz")


def test_damaged_and_foreign_files(tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"PK not really")
    assert "not a complete NPZ" in complaint(tmp_path, "scores", "bad.npz")
    (tmp_path / "odd.txt").write_text("a")
    assert "extension" in complaint(tmp_path, "features", "odd.txt")
    np.savez(tmp_path / "t.npz", confidence=np.array([0.5, 1.5]), correct=np.array([0, 1]))
    assert "from 0 to 1" in complaint(tmp_path, "top-label", "t.npz")
    np.savez(tmp_path / "u.npz", confidence=np.array([0.5]), correct=np.array([2]))
    assert "0 or 1" in complaint(tmp_path, "top-label", "u.npz")
    assert "confidence and correct" in complaint(tmp_path, "top-label", "odd.txt")


def test_parts_must_agree():
    two = Predictions.from_probabilities([[0.4, 0.6], [0.6, 0.4]])
    three = Predictions.from_probabilities(PROBABILITIES)
    with pytest.raises(StudyDataError, match="2 classes and test rows 3"):
        StudyData.from_split((two, [0, 1]), (three, LABELS))
    mixed = StudyData.from_split((three, LABELS), (Predictions.from_logits(LOGITS), LABELS))
    with pytest.raises(StudyDataError, match="two kinds"):
        mixed.all_rows()
    with pytest.raises(StudyDataError, match="truth must be 4 rows of 3"):
        StudyData.from_scores(three, LABELS, truth=np.ones((2, 3)))
    with pytest.raises(StudyDataError, match="task has 2 classes"):
        StudyData.from_scores(three, LABELS, truth=SyntheticTask((1.0, 1.0), TemperatureMap(2.0)))
    with pytest.raises(StudyDataError, match="both or neither"):
        StudyData.from_features(np.eye(2), [0, 1], calibration=(np.eye(2), [0, 1]))
