"""Base outputs of studies against a second, naive implementation; the cache; keys."""

import os
from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB

from calibrant import Predictions
from calibrant.errors import StoreError, StudyDataError
from calibrant.metrics import log_loss
from calibrant.studies.calibration import calibrate
from calibrant.studies.measures import measure_all
from calibrant.studies.outputs import (
    BaseOutputs,
    OutputsCache,
    OutputsRequest,
    Part,
    base_outputs,
    needs_training,
    outputs_key,
    training_key,
)
from calibrant.studies.specifications import CalibratorSpec, ClassifierSpec, DataSpec, MeasureSpec, SplitSpec
from calibrant.studies.splits import INNER, OUTER, Split, _number, split_seed, splits_of
from data import DATA_FOLDER, load

NBAYES = ClassifierSpec("nb", "nbayes")


@pytest.fixture
def folder(tmp_path):
    generator = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [60, 40, 20])
    X = generator.normal(size=(120, 3)) + 0.8 * y[:, np.newaxis]
    np.savez(tmp_path / "features.npz", X=X, y=y)
    np.savez(tmp_path / "trained.npz", X_train=X[::2], y_train=y[::2], X_test=X[1::2], y_test=y[1::2])
    np.savez(
        tmp_path / "three.npz",
        **{f"X_{part}": X[k::3] for k, part in enumerate(("train", "cal", "test"))},
        **{f"y_{part}": y[k::3] for k, part in enumerate(("train", "cal", "test"))},
    )
    logits = generator.normal(size=(200, 3)).astype(np.float32)
    labels = generator.integers(3, size=200)
    np.savez(
        tmp_path / "given.npz",
        val_logits=logits[:120],
        val_y=labels[:120],
        test_logits=logits[120:],
        test_y=labels[120:],
    )
    return tmp_path


def request(
    folder, source="features.npz", kind="features", classifier=NBAYES, splits=None, split=None, **other
):
    splits = SplitSpec("folds", folds=4, inner=3) if splits is None else splits
    return OutputsRequest(
        DataSpec("set", kind, source),
        classifier,
        splits,
        split or splits_of(splits)[0],
        5,
        folder,
        folder,
        **other,
    )


def naive_nested(folder, spec, split, method, seed=5):
    """Nested cross-validation as one would write it in a notebook; returns test probabilities and labels."""
    with np.load(folder / "features.npz") as file:
        X, y = file["X"], file["y"]
    outer = StratifiedKFold(spec.folds, shuffle=True, random_state=_number(seed, split.repeat, OUTER))
    train, test = list(outer.split(X, y))[split.fold]
    inner = StratifiedKFold(
        spec.inner, shuffle=True, random_state=_number(seed, split.repeat, INNER, split.fold)
    )
    found, pooled, pooled_labels = [], [], []
    for a, b in inner.split(X[train], y[train]):
        model = GaussianNB().fit(X[train][a], y[train][a])
        said = model.predict_proba(X[train][b])
        if spec.combine == "average":
            fitted = method().fit(said, y[train][b])
            found.append(fitted.predict_proba(model.predict_proba(X[test])))
        else:
            pooled.append(said)
            pooled_labels.append(y[train][b])
    if spec.combine == "pooled":
        fitted = method().fit(np.vstack(pooled), np.concatenate(pooled_labels))
        model = GaussianNB().fit(X[train], y[train])
        return fitted.predict_proba(model.predict_proba(X[test])), y[test]
    return np.mean(found, axis=0), y[test]


@pytest.mark.parametrize("combine", ["average", "pooled"])
@pytest.mark.parametrize("name", ["temperature", "isotonic", "uncalibrated"])
@pytest.mark.parametrize("place", [(0, 0), (1, 3)])
def test_nested_folds_are_those_of_a_naive_second_implementation(folder, combine, name, place):
    from calibrant.registry import make

    spec = SplitSpec("folds", repeats=2, folds=4, inner=3, combine=combine)
    split = Split("folds", *place)
    outputs = base_outputs(request(folder, splits=spec, split=split))
    calibrated = calibrate(outputs, CalibratorSpec(name, name), folder, 0)
    expected, labels = naive_nested(folder, spec, split, lambda: make(name))
    assert np.array_equal(outputs.test_labels, labels)
    assert len(outputs.parts) == (3 if combine == "average" else 1)
    np.testing.assert_allclose(calibrated.predictions.probabilities, expected, rtol=1e-12)
    assert calibrated.predictions.probabilities.dtype == np.float64


def test_scores_of_training_rows_are_kept_if_asked_for(folder):
    assert base_outputs(request(folder)).parts[0].training is None
    for combine, n_training in (("average", 60), ("pooled", 90)):
        spec = SplitSpec("folds", folds=4, inner=3, combine=combine)
        part = base_outputs(request(folder, splits=spec, keep_training=True)).parts[0]
        assert part.training.n_rows == len(part.training_labels) == n_training
        # A classifier is better on rows that it has seen: these are no others.
        assert log_loss(part.training_labels, part.training) < log_loss(
            part.training_labels, np.full((n_training, 3), 1 / 3)
        )


def test_given_rows_with_scores(folder):
    splits = SplitSpec("given", repeats=2, calibration_rows=(30, 60))
    made = {
        (split.repeat, split.calibration_rows): base_outputs(
            request(folder, "given.npz", "scores", None, splits, split)
        )
        for split in splits_of(splits)
    }
    few, more = made[0, 30].parts[0], made[0, 60].parts[0]
    assert few.calibration.scores.dtype == np.float32
    assert few.calibration.n_rows == 30
    assert np.array_equal(few.calibration.scores, more.calibration.scores[:30])
    assert not np.array_equal(few.calibration.scores, made[1, 30].parts[0].calibration.scores)
    assert len(made[0, 30].test_labels) == 80


def test_random_rows_of_all_scores(folder):
    splits = SplitSpec("random", repeats=2, calibration_rows=(0.25,))
    outputs = base_outputs(request(folder, "given.npz", "scores", None, splits))
    assert outputs.parts[0].calibration.n_rows == 50
    assert len(outputs.test_labels) == 150


def test_a_classifier_is_trained_once_for_all_splits(folder, monkeypatch):
    from calibrant.studies import outputs as module

    calls = []
    trained = module.trained
    monkeypatch.setattr(module, "trained", lambda *a: calls.append(1) or trained(*a))
    cache = OutputsCache(folder / "cache")
    splits = SplitSpec("random", repeats=3, calibration_rows=(20,))
    requests = [request(folder, "trained.npz", splits=splits, split=split) for split in splits_of(splits)]
    made = [base_outputs(each, cache) for each in requests]
    assert len(calls) == 1
    assert len({training_key(each) for each in requests}) == 1
    assert len({outputs_key(each) for each in requests}) == 3
    assert cache.has(training_key(requests[0]))
    with np.load(folder / "trained.npz") as file:
        model = GaussianNB().fit(file["X_train"], file["y_train"])
        said = model.predict_proba(file["X_test"])
    rows = np.vstack([made[1].parts[0].calibration.scores, made[1].parts[0].test.scores])
    np.testing.assert_allclose(np.sort(rows, axis=0), np.sort(said, axis=0))


def test_given_features_have_three_parts(folder):
    outputs = base_outputs(request(folder, "three.npz", splits=SplitSpec("given"), keep_training=True))
    with np.load(folder / "three.npz") as file:
        model = GaussianNB().fit(file["X_train"], file["y_train"])
        np.testing.assert_allclose(outputs.parts[0].calibration.scores, model.predict_proba(file["X_cal"]))
        np.testing.assert_allclose(outputs.parts[0].test.scores, model.predict_proba(file["X_test"]))
        np.testing.assert_allclose(outputs.parts[0].training.scores, model.predict_proba(file["X_train"]))
        assert np.array_equal(outputs.test_labels, file["y_test"])


def test_splits_that_do_not_suit_the_data(folder):
    cases = [
        (request(folder, "given.npz", "scores", None), "no classifier can be trained"),
        (request(folder, splits=SplitSpec("random")), "X_train and y_train"),
        (request(folder, "trained.npz", splits=SplitSpec("given")), "use splits of kind random"),
    ]
    for each, words in cases:
        with pytest.raises(StudyDataError, match=words):
            base_outputs(each)


def test_generated_rows_are_drawn_anew_for_every_repeat(folder):
    (folder / "own.py").write_text(
        "import numpy as np\nfrom calibrant.studies.data import StudyData\n"
        "def draw(*, seed, data_folder):\n"
        "    g = np.random.default_rng(seed)\n    p, q = g.dirichlet([1, 1], 20), g.dirichlet([1, 1], 30)\n"
        "    return StudyData.from_split((p, g.integers(2, size=20)), (q, g.integers(2, size=30)), truth=q)\n"
    )
    splits = SplitSpec("given", repeats=2)
    first, second = (
        base_outputs(request(folder, "own.py:draw", "generated", None, splits, split))
        for split in splits_of(splits)
    )
    assert not np.array_equal(first.truth, second.truth)
    random = SplitSpec("random", repeats=2)
    a, b = (
        base_outputs(request(folder, "own.py:draw", "generated", None, random, split))
        for split in splits_of(random)
    )
    together = [
        sorted(np.vstack([each.parts[0].calibration.scores, each.parts[0].test.scores])[:, 0])
        for each in (a, b)
    ]
    assert together[0] == together[1]


def test_what_is_cached_comes_back(folder):
    cache = OutputsCache(folder / "cache")
    logits = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    part = Part(Predictions.from_logits(logits), np.arange(5) % 3, Predictions.from_logits(logits[:2]))
    other = replace(part, training=Predictions.from_probabilities(np.eye(3)), training_labels=np.arange(3))
    outputs = BaseOutputs((part, other), np.array([0, 1]), 3, np.full((2, 3), 1 / 3), 1.5)
    cache.put("key", outputs)
    found = cache.get("key")
    assert found.parts[0].calibration.scores.dtype == np.float32
    assert str(found.parts[0].test.space) == "logits"
    assert str(found.parts[1].training.space) == "probabilities"
    assert found.parts[0].training is None
    assert np.array_equal(found.parts[1].calibration.scores, logits)
    assert np.array_equal(found.truth, outputs.truth)
    assert (found.n_classes, found.train_seconds) == (3, 1.5)
    assert [path.name for path in (folder / "cache").iterdir()] == ["key.npz"]


@pytest.mark.parametrize("length", [0, 10, 200, -1])
def test_a_file_that_is_not_whole_is_made_anew(folder, length):
    cache = OutputsCache(folder / "cache")
    asked = request(folder)
    key = outputs_key(asked)
    first = base_outputs(asked, cache)
    content = cache.path(key).read_bytes()
    cache.path(key).write_bytes(content[:length])
    assert cache.get(key) is None
    again = base_outputs(asked, cache)
    assert np.array_equal(again.parts[0].test.scores, first.parts[0].test.scores)
    assert cache.get(key) is not None


def test_outputs_without_training_rows_are_made_anew_where_these_are_needed(folder):
    cache = OutputsCache(folder / "cache")
    plain, wanting = request(folder), request(folder, keep_training=True)
    assert outputs_key(plain) == outputs_key(wanting)
    base_outputs(plain, cache)
    assert base_outputs(wanting, cache).parts[0].training is not None
    assert base_outputs(plain, cache).parts[0].training is not None


@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="needs a folder that cannot be written to"
)
def test_a_cache_that_cannot_be_written(folder):
    (folder / "locked").mkdir(mode=0o500)
    with pytest.raises(StoreError, match="cannot be written"):
        base_outputs(request(folder), OutputsCache(folder / "locked"))


def test_a_cache_in_the_place_of_a_file(folder):
    (folder / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        base_outputs(request(folder), OutputsCache(folder / "file"))


def test_keys_follow_what_matters(folder):
    base = request(folder)
    key = outputs_key(base)
    assert outputs_key(replace(base, data=replace(base.data, name="other", labels={"a": 1}))) == key
    assert outputs_key(replace(base, splits=replace(base.splits, repeats=9))) == key
    assert outputs_key(replace(base, classifier=replace(NBAYES, name="other"))) == key
    changed = [
        replace(base, seed=6),
        replace(base, split=Split("folds", 0, 1)),
        replace(base, split=Split("folds", 1, 0)),
        replace(base, splits=replace(base.splits, inner=2)),
        replace(base, splits=replace(base.splits, combine="pooled")),
        replace(base, classifier=ClassifierSpec("nb", "lda")),
        replace(base, classifier=ClassifierSpec("nb", "nbayes", {"var_smoothing": 0.1})),
        replace(base, data=replace(base.data, options={"standardise": True})),
    ]
    assert len({key, *(outputs_key(each) for each in changed)}) == len(changed) + 1
    assert training_key(base) == key
    assert training_key(request(folder, "given.npz", "scores", None, SplitSpec("given"))) is None


def test_keys_follow_the_code_of_a_classifier(folder):
    (folder / "own.py").write_text("from sklearn.naive_bayes import GaussianNB as Own\n")
    asked = request(folder, classifier=ClassifierSpec("own", "own.py:Own"))
    before = outputs_key(asked)
    (folder / "own.py").write_text("from sklearn.naive_bayes import BernoulliNB as Own\n")
    assert outputs_key(asked) != before


def test_a_smaller_list_of_calibration_rows_shares_keys_if_test_rows_are_set(folder):
    few = SplitSpec("random", calibration_rows=(20,), test_rows=50)
    many = replace(few, calibration_rows=(20, 40), repeats=3)
    split = Split("random", 0, 0, 20)
    keys = [outputs_key(request(folder, "given.npz", "scores", None, spec, split)) for spec in (few, many)]
    assert keys[0] == keys[1]
    rest = [replace(spec, test_rows=None) for spec in (few, many)]
    keys = [outputs_key(request(folder, "given.npz", "scores", None, spec, split)) for spec in rest]
    assert keys[0] != keys[1]


def test_training_is_needed_for_some_searches_only():
    grid = CalibratorSpec("g", "width-binning", grid={"n_bins": [5, 10]}, select="training")
    assert needs_training(grid)
    assert not needs_training(replace(grid, select="cross-validation"))
    assert not needs_training(replace(grid, grid={}))


def test_the_average_of_parts_before_calibration(folder):
    outputs = base_outputs(request(folder))
    mean = np.mean([part.test.probabilities for part in outputs.parts], axis=0)
    np.testing.assert_allclose(outputs.uncalibrated().probabilities, mean)


def test_rare_classes_do_not_stop_anything(tmp_path):
    """Four rows of the last class for five folds: some lack it in training and keep its column."""
    generator = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [60, 40, 4])
    np.savez(tmp_path / "features.npz", X=generator.normal(size=(104, 3)) + y[:, np.newaxis], y=y)
    splits = SplitSpec("folds", folds=5, inner=5)
    for split in splits_of(splits):
        outputs = base_outputs(request(tmp_path, splits=splits, split=split))
        assert all(part.test.n_classes == part.calibration.n_classes == 3 for part in outputs.parts)
    assert split_seed(5, Split("folds")) >= 0


def test_published_figures_of_a_network(tmp_path):
    """Log-loss and confidence-ECE of ResNet-110 on CIFAR-10, before and after temperature scaling, as printed."""
    load("kull_nn/c10_resnet110")  # or skip
    asked = OutputsRequest(
        DataSpec("c10_resnet110", "scores", "kull_nn/c10_resnet110.npz"),
        None,
        SplitSpec("given"),
        Split("given"),
        0,
        DATA_FOLDER,
        tmp_path,
    )
    outputs = base_outputs(asked)
    specs = [MeasureSpec("loss", "kull2019.log_loss"), MeasureSpec("error", "kull2019.confidence_ece")]
    found = [
        measure_all(specs, outputs, calibrate(outputs, CalibratorSpec(name, name), tmp_path, 0), 0)
        for name in ("uncalibrated", "temperature")
    ]
    assert [round(each["loss"], 5) for each in found] == [0.35827, 0.20926]
    assert [round(each["error"], 5) for each in found] == [0.0475, 0.01132]
