"""MultilabelCalibration and MultioutputCalibration: equal to loops, shared maps, missing outcomes, files, classifiers."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier

from calibrant import (
    BetaCalibration,
    CalibratedClassifier,
    IsotonicCalibration,
    MultilabelCalibration,
    MultioutputCalibration,
    PiecewiseLinearCalibration,
    PlattScaling,
    Predictions,
    TemperatureScaling,
    registry,
)
from calibrant.calibrators.combinators.multilabel import LabelMap, label_penalty
from calibrant.calibrators.monotone.piecewise_linear import SegmentMaps
from calibrant.errors import (
    FileFormatError,
    LabelError,
    MissingClassWarning,
    ParameterError,
    PredictionError,
    WeightError,
)
from calibrant.metrics import log_loss, multilabel_score
from calibrant.objective import ArrayRows, Family, MultilabelLoss, logits
from calibrant.solvers import bounded_newton


def task(n_rows=300, n_labels=5, seed=0, missing=0.0):
    generator = np.random.default_rng(seed)
    z = generator.normal(-2, 2, (n_rows, n_labels))
    y = (generator.random(z.shape) < expit(0.5 * z + generator.normal(0, 0.4, n_labels))).astype(float)
    y[generator.random(z.shape) < missing] = np.nan
    return expit(z), y


@pytest.mark.parametrize(
    "base", [PlattScaling(), BetaCalibration(), IsotonicCalibration(), TemperatureScaling()]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("space", ["probabilities", "logits"])
def test_separate_maps_equal_a_loop_of_binary_fits_bit_for_bit(base, dtype, space):
    p, y = task(missing=0.1)
    scores = (p if space == "probabilities" else np.log(p / (1 - p))).astype(dtype)
    parse = Predictions.from_probabilities if space == "probabilities" else Predictions.from_logits
    weights = np.random.default_rng(1).integers(0, 3, len(p)).astype(float)
    found = MultilabelCalibration(base, space=space).fit(scores, y, weights).predict_proba(scores)
    assert found.dtype == dtype
    for label in range(p.shape[1]):
        known = ~np.isnan(y[:, label])
        alone = clone(base).fit(parse(scores[known, label]), y[known, label].astype(int), weights[known])
        assert (found[:, label] == alone.predict_proba(parse(scores[:, label]))[:, 1]).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", registry.calibrators())
def test_every_method_of_the_registry_equals_a_loop(name):
    p, y = task(80, 2)
    found = MultilabelCalibration(name).fit(p, y).predict_proba(p)
    for label in range(2):
        alone = registry.make(name).fit(p[:, label], y[:, label].astype(int))
        assert (found[:, label] == alone.predict_proba(p[:, label])[:, 1]).all()


def test_labels_by_registry_name_lists_and_frames():
    pd = pytest.importorskip("pandas")
    p, y = task()
    by_name = MultilabelCalibration("platt").fit(p, y)
    as_list = [np.column_stack([1 - column, column]) for column in p.T]
    assert (by_name.predict_proba(as_list) == by_name.predict_proba(p)).all()
    names = list("abcde")
    frames = MultilabelCalibration("platt").fit(
        pd.DataFrame(p, columns=names), pd.DataFrame(y, columns=names)
    )
    assert frames.names_ == names
    assert (frames.predict_proba(p) == by_name.predict_proba(p)).all()
    with pytest.raises(PredictionError, match="same order"):
        frames.predict_proba(pd.DataFrame(p, columns=names[::-1]))
    with pytest.raises(LabelError, match="same order"):
        frames.fit(pd.DataFrame(p, columns=names), pd.DataFrame(y, columns=names[::-1]))
    assert (by_name.predict(p) == (by_name.predict_proba(p) > 0.5)).all()


def test_the_shared_map_is_the_optimum_of_its_objective():
    """The gradient by finite differences vanishes at the fitted parameters, beside those at their bound."""
    p, y = task(120, 3, missing=0.2)
    fitted = MultilabelCalibration(strength=2.0).fit(p, y)
    one = fitted.calibrators_[0]
    maps = SegmentMaps(one.knots_)
    label_map = LabelMap(3, maps)
    curve = PiecewiseLinearCalibration()
    of_curve = maps.strengths(curve.intercept_penalty, curve.slope_penalty, curve.difference_penalty)
    # The shared curve and slopes from the maps of the labels: v sums to zero at the optimum only with free curves.
    x = np.column_stack([log_odds_of(one, column) for column in p.T])
    family = Family(
        logits, label_map, MultilabelLoss(), penalty_in_rows=label_penalty(label_map, of_curve, 2.0)
    )
    objective = family.objective(ArrayRows(x, y))

    best = bounded_newton(objective.second_order, label_map.identity(), label_map.lower(), tolerance=1e-14)
    for label, calibrator in enumerate(fitted.calibrators_):
        expected = label_map.of_label(best.theta, label)
        assert np.append(calibrator.intercept_, calibrator.slopes_) == pytest.approx(expected, abs=1e-4)


def log_odds_of(calibrator, column):
    """Tempered and mixed log-odds, written out."""
    s = np.log(column / (1 - column)) / calibrator.temperature_
    q = (1 - calibrator.mixing_) * expit(s) + calibrator.mixing_ / 2
    return np.log(q / (1 - q))


def test_the_map_of_labels_agrees_with_its_formula_and_derivatives():
    generator = np.random.default_rng(0)
    label_map = LabelMap(3, SegmentMaps(np.array([-1.0, 0.5])))
    theta = generator.normal(size=label_map.n_parameters)
    x = generator.normal(size=(7, 3)) * 2
    assert super(LabelMap, label_map).forward(theta, x) == pytest.approx(label_map.forward(theta, x))
    cotangent = generator.normal(size=x.shape)
    assert super(LabelMap, label_map).adjoint(cotangent, x) == pytest.approx(label_map.adjoint(cotangent, x))
    for label in range(3):
        own = label_map.of_label(theta, label) @ label_map.maps.columns(x[:, label])
        assert own == pytest.approx(label_map.forward(theta, x)[:, label])


def test_a_strong_penalty_is_the_pooled_map_and_a_weak_one_separate_maps():
    p, y = task(2000, 3)
    pooled = MultilabelCalibration(strength=1e9).fit(p, y)
    first, *others = pooled.calibrators_
    for other in others:
        assert other.slopes_ == pytest.approx(first.slopes_, abs=1e-5)
    loss = {
        strength: multilabel_score(
            log_loss, y, MultilabelCalibration(strength=strength).fit(p, y).predict_proba(p)
        )
        for strength in (1e9, 1.0, 1e-3)
    }
    separate = multilabel_score(log_loss, y, MultilabelCalibration("platt").fit(p, y).predict_proba(p))
    assert loss[1e-3] <= loss[1.0] <= loss[1e9]
    assert loss[1e-3] <= separate + 1e-4


def test_the_shared_map_beats_separate_ones_on_few_rows():
    p, y = task(3000, 30, seed=2)
    train, test = slice(0, 150), slice(150, None)
    shared = MultilabelCalibration().fit(p[train], y[train])
    separate = MultilabelCalibration("platt").fit(p[train], y[train])
    losses = [multilabel_score(log_loss, y[test], each.predict_proba(p[test])) for each in (shared, separate)]
    assert losses[0] < losses[1]
    assert shared.strength_ in shared.strengths_
    assert len(shared.cv_losses_) == len(shared.strengths_)


def test_labels_with_one_outcome():
    p, y = task(100, 3)
    y[:, 1] = 0
    with pytest.warns(MissingClassWarning, match="label 1 has a single outcome"):
        separate = MultilabelCalibration("platt").fit(p, y)
    assert (separate.predict_proba(p)[:, 1] == p[:, 1]).all()
    shared = MultilabelCalibration().fit(p, y).predict_proba(p)
    assert shared[:, 1].mean() < p[:, 1].mean()
    assert np.isfinite(shared).all()
    y[:, 2] = np.nan
    assert np.isfinite(MultilabelCalibration().fit(p, y).predict_proba(p)).all()


def test_a_weight_of_two_is_a_repeated_row_and_zero_an_absent_one():
    p, y = task(80, 3, missing=0.1)
    weights = np.repeat([1.0, 2.0], 40)
    weighted = MultilabelCalibration(strength=1.0).fit(p, y, weights).predict_proba(p)
    rows = np.repeat(np.arange(80), weights.astype(int))
    repeated = MultilabelCalibration(strength=1.0).fit(p[rows], y[rows]).predict_proba(p)
    assert weighted == pytest.approx(repeated, abs=1e-5)


@pytest.mark.parametrize("method", ["shared", "platt", IsotonicCalibration()])
def test_files(tmp_path, method):
    p, y = task()
    fitted = MultilabelCalibration(method).fit(p, y)
    fitted.save(tmp_path / "labels.npz")
    loaded = MultilabelCalibration.load(tmp_path / "labels.npz")
    assert (loaded.predict_proba(p) == fitted.predict_proba(p)).all()
    assert loaded.strength_ == fitted.strength_
    again = tmp_path / "again.npz"
    loaded.save(again)
    assert again.read_bytes() == (tmp_path / "labels.npz").read_bytes()
    with pytest.raises(FileFormatError, match="MultilabelCalibration"):
        MultioutputCalibration.load(again)
    again.write_bytes(again.read_bytes()[:100])
    with pytest.raises(FileFormatError, match="zip"):
        MultilabelCalibration.load(again)


@pytest.mark.parametrize(
    ("X", "Y", "error", "words"),
    [
        ([[0.1, 1.2]], [[0, 1]], PredictionError, "row 0 of label 1 has 1.2"),
        ([[0.1, np.nan]], [[0, 1]], PredictionError, "finite|between"),
        ([0.1, 0.2], [0, 1], PredictionError, "shape"),
        ([["a", "b"]], [[0, 1]], PredictionError, "real numbers"),
        (Predictions.from_probabilities([[0.1, 0.9]]), [[0, 1]], PredictionError, "not Predictions"),
        ([[0.1, 0.2]], [[0, 2]], LabelError, "row 0 of label 1 has 2"),
        ([[0.1, 0.2]], [[0, 1, 1]], LabelError, "outcomes have shape"),
        ([[0.1, 0.2]], [["a", "b"]], LabelError, "MultiLabelBinarizer"),
        ([[0.1, 0.2]], [[0, 0]], LabelError, "both outcomes"),
    ],
)
def test_invalid_input(X, Y, error, words):
    with pytest.raises(error, match=words):
        MultilabelCalibration("platt").fit(X, Y)


def test_invalid_parameters():
    p, y = task(50, 2)
    with pytest.raises(ParameterError, match="method"):
        MultilabelCalibration(3).fit(p, y)
    with pytest.raises(ParameterError, match="strength"):
        MultilabelCalibration(strength=-1).fit(p, y)
    with pytest.raises(ParameterError, match="space"):
        MultilabelCalibration(space="odds").fit(p, y)
    with pytest.raises(WeightError, match="50"):
        MultilabelCalibration().fit(p, y, [1.0])
    with pytest.raises(PredictionError, match="2 in fit"):
        MultilabelCalibration("platt").fit(p, y).predict_proba(p[:, :1])


def test_masked_sparse_and_boolean_outcomes():
    from scipy.sparse import csr_matrix

    p, y = task(60, 3, missing=0.2)
    masked = np.ma.masked_invalid(y)
    objects = np.where(np.isnan(y), None, y)
    expected = MultilabelCalibration("platt").fit(p, y).predict_proba(p)
    for form in (masked, objects):
        assert (MultilabelCalibration("platt").fit(p, form).predict_proba(p) == expected).all()
    whole = np.nan_to_num(y)
    expected = MultilabelCalibration("platt").fit(p, whole).predict_proba(p)
    for form in (csr_matrix(whole), whole.astype(bool)):
        assert (MultilabelCalibration("platt").fit(p, form).predict_proba(p) == expected).all()


# Several outputs


def outputs(n_rows=90):
    generator = np.random.default_rng(3)
    X = [generator.dirichlet([1.0] * k, n_rows) for k in (2, 4)]
    Y = np.column_stack([[generator.choice(len(row), p=row) for row in part] for part in X])
    return X, Y


def test_several_outputs_equal_a_loop(tmp_path):
    X, Y = outputs()
    fitted = MultioutputCalibration("temperature").fit(X, Y)
    for part, labels, found in zip(X, Y.T, fitted.predict_proba(X), strict=True):
        assert (found == TemperatureScaling().fit(part, labels).predict_proba(part)).all()
    assert [classes.tolist() for classes in fitted.classes_] == [[0, 1], [0, 1, 2, 3]]
    assert fitted.predict(X).shape == Y.shape
    fitted.save(tmp_path / "outputs.npz")
    loaded = MultioutputCalibration.load(tmp_path / "outputs.npz")
    assert all((a == b).all() for a, b in zip(loaded.predict_proba(X), fitted.predict_proba(X), strict=True))


def test_missing_labels_of_outputs():
    X, Y = outputs()
    some = Y.astype(float)
    some[:30, 1] = np.nan
    fitted = MultioutputCalibration("temperature").fit(X, some, np.ones(len(Y)))
    alone = TemperatureScaling().fit(X[1][30:], Y[30:, 1])
    assert fitted.calibrators_[1].temperature_ == alone.temperature_


def test_invalid_outputs():
    X, Y = outputs()
    with pytest.raises(PredictionError, match="list"):
        MultioutputCalibration().fit(X[0], Y)
    with pytest.raises(LabelError, match="one column per"):
        MultioutputCalibration("temperature").fit(X, Y[:, :1])
    with pytest.raises(PredictionError, match="same rows"):
        MultioutputCalibration("temperature").fit([X[0], X[1][:5]], Y)
    with pytest.raises(PredictionError, match="2 in fit"):
        MultioutputCalibration("temperature").fit(X, Y).predict_proba(X[:1])
    with pytest.raises(WeightError, match="shape"):
        MultioutputCalibration("temperature").fit(X, Y, [1.0])
    with pytest.raises(ParameterError, match="method"):
        MultioutputCalibration(3).fit(X, Y)


# Classifiers

TRUSTED = ["sklearn.preprocessing._label.LabelBinarizer"]


def features(n_rows=200):
    generator = np.random.default_rng(5)
    X = generator.normal(size=(n_rows, 3))
    Y = (generator.random((n_rows, 2)) < expit(X[:, :2] * 2)).astype(int)
    return X, Y


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(10, random_state=0),
        MultiOutputClassifier(LogisticRegression()),
        OneVsRestClassifier(LogisticRegression()),
    ],
)
@pytest.mark.parametrize("ensemble", [True, False])
def test_multilabel_classifiers(estimator, ensemble):
    X, Y = features()
    fitted = CalibratedClassifier(estimator, method="platt", cv=3, ensemble=ensemble).fit(X, Y)
    p = fitted.predict_proba(X)
    assert p.shape == Y.shape
    assert (fitted.predict(X) == (p > 0.5)).all()
    assert len(fitted.calibrated_pairs_) == (3 if ensemble else 1)


@pytest.mark.parametrize("method", ["shared", "platt", PlattScaling()])
def test_files_of_multilabel_classifiers(tmp_path, method):
    pytest.importorskip("skops")
    X, Y = features()
    estimator = OneVsRestClassifier(LogisticRegression())
    if isinstance(method, str) and method == "shared":
        fitted = CalibratedClassifier(estimator, cv=3).fit(X, Y)
    else:
        fitted = CalibratedClassifier(estimator, method=method, cv=3).fit(X, Y)
    fitted.save(tmp_path / "tags.zip")
    loaded = CalibratedClassifier.load(tmp_path / "tags.zip", trusted=TRUSTED)
    assert (loaded.predict_proba(X) == fitted.predict_proba(X)).all()
    assert (loaded.predict(X) == fitted.predict(X)).all()
    assert [classes.tolist() for classes in loaded.classes_] == [[0, 1], [0, 1]]


def test_files_of_multioutput_classifiers(tmp_path):
    pytest.importorskip("skops")
    X, Y = features()
    Y = np.column_stack([Y[:, 0] * 2, Y[:, 1] + Y[:, 0]])
    fitted = CalibratedClassifier(
        MultiOutputClassifier(LogisticRegression()), method="temperature", cv=3
    ).fit(X, Y)
    fitted.save(tmp_path / "outputs.zip")
    loaded = CalibratedClassifier.load(tmp_path / "outputs.zip", trusted=TRUSTED)
    assert all((a == b).all() for a, b in zip(loaded.predict_proba(X), fitted.predict_proba(X), strict=True))


def test_a_multilabel_classifier_by_its_decision_function_and_a_frozen_one():
    X, Y = features()
    estimator = OneVsRestClassifier(LogisticRegression()).fit(X, Y)
    frozen = CalibratedClassifier(FrozenEstimator(estimator), method="platt").fit(X, Y)
    by_hand = MultilabelCalibration("platt").fit(estimator.predict_proba(X), Y)
    assert (frozen.predict_proba(X) == by_hand.predict_proba(estimator.predict_proba(X))).all()
    decisions = CalibratedClassifier(
        FrozenEstimator(estimator), method="platt", response="decision_function"
    ).fit(X, Y)
    assert decisions.predict_proba(X) == pytest.approx(frozen.predict_proba(X), abs=1e-3)


def test_a_classifier_of_several_class_columns():
    X, Y = features()
    Y = np.column_stack([Y[:, 0] * 2, Y[:, 1] + Y[:, 0]])
    fitted = CalibratedClassifier(RandomForestClassifier(10, random_state=0), method="temperature", cv=3).fit(
        X, Y
    )
    first, second = fitted.predict_proba(X)
    assert first.shape == (len(X), 2)
    assert second.shape == (len(X), 3)
    assert set(np.unique(fitted.predict(X)[:, 0])) <= {0, 2}
