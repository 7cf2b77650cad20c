"""Calibration inside a unit: parameters are chosen, fits are averaged, own methods are called."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from calibrant import Chain, Predictions
from calibrant.calibrators.scaling.affine import AffineScaling
from calibrant.errors import RecipeError, StudyError
from calibrant.metrics import log_loss
from calibrant.registry import make
from calibrant.studies import calibration
from calibrant.studies.calibration import calibrate, check_calibrator, make_calibrator
from calibrant.studies.outputs import BaseOutputs, Part
from calibrant.studies.specifications import CalibratorSpec

HERE = Path()
STRENGTHS = [1e3, 1e1, 1e-1, 1e-3, 1e-5]

OWN = """
import numpy as np

class Shrunk:
    def __init__(self, towards=0.5):
        self.towards = towards

    def fit(self, p, y):
        self.towards_ = self.towards
        self.shares = np.bincount(y, minlength=p.shape[1]) / len(y)
        return self

    def predict_proba(self, p):
        return (1 - self.towards) * p + self.towards * self.shares

class Half:
    def fit(self, p, y):
        return self

    def predict_proba(self, p):
        return p[::2]

class Double(Half):
    def predict_proba(self, p):
        return 2 * p
"""


def drawn(n_rows, generator, n_classes=3, sharpness=2.0):
    """Predictions that are too bold, with their labels."""
    true = generator.dirichlet([0.7] * n_classes, n_rows)
    labels = np.array([generator.choice(n_classes, p=row) for row in true])
    said = true**sharpness
    return Predictions.from_probabilities(said / said.sum(axis=1, keepdims=True)), labels


@pytest.fixture(scope="module")
def outputs():
    generator = np.random.default_rng(0)
    test, test_labels = drawn(80, generator)
    parts = [Part(*drawn(150, generator), test, *drawn(200, generator)) for _ in range(3)]
    return BaseOutputs(tuple(parts), test_labels, 3)


def single(outputs):
    return replace(outputs, parts=outputs.parts[:1])


def naive_best(part, method, grid, select, folds=3, seed=0):
    """Search a grid by the log-loss as one would by hand."""
    losses = []
    for parameters in grid:
        if select == "training":
            fitted = make(method, **parameters).fit(part.calibration, part.calibration_labels)
            losses.append(log_loss(part.training_labels, fitted.transform(part.training)))
            continue
        total = 0.0
        splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
        for rest, out in splitter.split(part.calibration_labels, part.calibration_labels):
            fitted = make(method, **parameters).fit(
                part.calibration.take(rest), part.calibration_labels[rest]
            )
            total += len(out) * log_loss(
                part.calibration_labels[out], fitted.transform(part.calibration.take(out))
            )
        losses.append(total)
    return grid[int(np.argmin(losses))]


def test_one_part_keeps_space_and_float_type():
    rows, labels = drawn(50, np.random.default_rng(0))
    logits = Predictions.from_logits(rows.log_probabilities.astype(np.float32))
    outputs = BaseOutputs((Part(logits, labels, logits),), labels, 3)
    calibrated = calibrate(outputs, CalibratorSpec("t", "temperature"), HERE, 0)
    assert calibrated.predictions.scores.dtype == np.float32
    assert str(calibrated.predictions.space) == "logits"
    same = calibrated.apply(logits)
    assert np.array_equal(same.scores, calibrated.predictions.scores)
    assert calibrated.fit_seconds > 0
    assert calibrated.predict_seconds > 0


def test_several_parts_are_averaged(outputs):
    calibrated = calibrate(outputs, CalibratorSpec("t", "temperature"), HERE, 0)
    by_hand = [
        make("temperature").fit(part.calibration, part.calibration_labels).predict_proba(part.test)
        for part in outputs.parts
    ]
    np.testing.assert_allclose(calibrated.predictions.probabilities, np.mean(by_hand, axis=0), rtol=1e-12)
    assert calibrated.apply is None
    assert len(calibrated.chosen) == 3


@pytest.mark.parametrize("select", ["training", "cross-validation"])
def test_a_grid_of_numbers_of_bins_is_searched(outputs, select):
    spec = CalibratorSpec("w", "width-binning", grid={"n_bins": [2, 5, 10, 20]}, select=select, folds=3)
    calibrated = calibrate(outputs, spec, HERE, 0)
    for part, chosen in zip(outputs.parts, calibrated.chosen, strict=True):
        grid = [{"n_bins": number} for number in (2, 5, 10, 20)]
        assert chosen == naive_best(part, "width-binning", grid, select)


@pytest.mark.parametrize(
    ("method", "parameters", "grid"),
    [
        ("dirichlet-odir", {}, {"reg_lambda": STRENGTHS, "reg_mu": STRENGTHS}),
        ("dirichlet-l2", {"reg_mu": None, "center": "zero"}, {"reg_lambda": [1e-1, 1e-2, 1e-3, 1e-4]}),
        ("matrix-odir", {"reg_mu": 0.01}, {"reg_lambda": STRENGTHS}),
    ],
)
def test_strengths_on_training_rows_are_those_of_single_fits(outputs, method, parameters, grid):
    """The search from warm starts is accurate to 1e-4, so that the loss of its choice is the least but for that."""
    spec = CalibratorSpec("d", method, parameters, grid=grid, select="training")
    part = outputs.parts[0]
    chosen = calibrate(single(outputs), spec, HERE, 0).chosen[0]

    def loss(point):
        fitted = make(method, **parameters, **point).fit(part.calibration, part.calibration_labels)
        return log_loss(part.training_labels, fitted.transform(part.training))

    points = calibration.grid_points(spec)
    found = {name: chosen[name] for name in grid}
    assert found in points
    assert loss(found) <= min(loss(point) for point in points) + 1e-4


def test_warm_starts_are_used_where_they_can_be(outputs):
    part = outputs.parts[0]
    spec = CalibratorSpec(
        "d", "dirichlet-odir", grid={"reg_lambda": STRENGTHS, "reg_mu": STRENGTHS}, select="training"
    )

    def found(spec, part=part):
        return calibration.best_on_path(part, spec, make_calibrator(spec, HERE, 0))

    assert set(found(spec)) == {"reg_lambda", "reg_mu"}
    # A search of one and a walk of the other do not go together; nor does a centre that depends on the rows.
    assert found(replace(spec, grid={"reg_lambda": STRENGTHS})) is None
    assert found(replace(spec, method="dirichlet-l2")) is None
    assert found(replace(spec, method="vector", grid={})) is None
    lacking = np.where(part.calibration_labels == 2, 1, part.calibration_labels)
    assert found(spec, replace(part, calibration_labels=lacking)) is None


@pytest.mark.parametrize("refit", ["whole", "average"])
def test_strengths_by_cross_validation_are_left_to_the_method(outputs, refit):
    grid = {"reg_lambda": STRENGTHS, "reg_mu": STRENGTHS}
    spec = CalibratorSpec("d", "dirichlet-odir", grid=grid, folds=4, refit=refit)
    calibrated = calibrate(single(outputs), spec, HERE, 0)
    part = outputs.parts[0]
    by_hand = make("dirichlet-odir", **grid, cv=4, average_folds=refit == "average")
    by_hand.fit(part.calibration, part.calibration_labels)
    np.testing.assert_allclose(calibrated.predictions.probabilities, by_hand.predict_proba(part.test))
    assert calibrated.chosen == [{"reg_lambda": by_hand.reg_lambda_, "reg_mu": by_hand.reg_mu_}]


def test_models_of_folds_are_averaged(outputs):
    spec = CalibratorSpec("w", "width-binning", grid={"n_bins": [5, 10]}, folds=3, refit="average")
    part = outputs.parts[0]
    calibrated = calibrate(single(outputs), spec, HERE, 7)
    best = calibrated.chosen[0]
    splitter = StratifiedKFold(3, shuffle=True, random_state=7)
    models = [
        make("width-binning", **best).fit(part.calibration.take(rest), part.calibration_labels[rest])
        for rest, _ in splitter.split(part.calibration_labels, part.calibration_labels)
    ]
    expected = np.mean([model.predict_proba(part.test) for model in models], axis=0)
    np.testing.assert_allclose(calibrated.predictions.probabilities, expected)


def test_parameters_that_a_method_chose_itself_are_reported(outputs):
    chosen = calibrate(single(outputs), CalibratorSpec("d", "dirichlet-odir"), HERE, 0).chosen[0]
    assert set(chosen) == {"reg_lambda", "reg_mu"}
    assert all(type(value) is float for value in chosen.values())
    spec = CalibratorSpec("c", parts=({"method": "temperature"}, {"method": "dirichlet-odir"}))
    assert set(calibrate(single(outputs), spec, HERE, 0).chosen[0]) == {"1.reg_lambda", "1.reg_mu"}


def test_compositions_with_parameters_of_their_parts(outputs):
    parts = ({"method": "temperature", "parameters": {"loss": "brier"}}, {"method": "width-binning"})
    spec = CalibratorSpec("c", parts=parts, parameters={"1.n_bins": 7})
    made = make_calibrator(spec, HERE, 0)
    assert isinstance(made, Chain)
    assert made.calibrators[0].loss == "brier"
    assert made.calibrators[1].n_bins == 7
    searched = CalibratorSpec("c", parts=parts, grid={"1.n_bins": [3, 6]}, select="training")
    assert calibrate(single(outputs), searched, HERE, 0).chosen[0]["1.n_bins"] in (3, 6)
    plus = calibrate(single(outputs), CalibratorSpec("p", "temperature+width-binning"), HERE, 0)
    assert plus.predictions.n_rows == 80


def test_the_seed_reaches_random_methods():
    spec = CalibratorSpec("f", "forest")
    assert make_calibrator(spec, HERE, 11).random_state == 11
    fixed = replace(spec, parameters={"random_state": 3})
    assert make_calibrator(fixed, HERE, 11).random_state == 3
    chain = make_calibrator(CalibratorSpec("c", "temperature+forest"), HERE, 12)
    assert chain.calibrators[1].random_state == 12


def test_a_class_of_ones_own(outputs, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    spec = CalibratorSpec("own", "own.py:Shrunk", {"towards": 0.25})
    check_calibrator(spec, tmp_path)
    calibrated = calibrate(single(outputs), spec, tmp_path, 0)
    part = outputs.parts[0]
    shares = np.bincount(part.calibration_labels) / 150
    np.testing.assert_allclose(
        calibrated.predictions.probabilities, 0.75 * part.test.probabilities + 0.25 * shares
    )
    grid = CalibratorSpec("own", "own.py:Shrunk", grid={"towards": [0.0, 0.3, 0.9]}, folds=3)
    assert calibrate(single(outputs), grid, tmp_path, 0).chosen[0]["towards"] in (0.0, 0.3, 0.9)
    with pytest.raises(StudyError, match="'own' gave probabilities of shape"):
        calibrate(outputs, CalibratorSpec("own", "own.py:Half"), tmp_path, 0)
    with pytest.raises(StudyError, match="'own': rows must sum to 1"):
        calibrate(outputs, CalibratorSpec("own", "own.py:Double"), tmp_path, 0)


def test_refuted_zeros_do_not_end_a_search():
    """Both maps give zeros to what happened; one of them less often."""
    p = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.4], [0.5, 0.5]] * 20)
    y = np.array([0, 1, 1, 0] * 20)
    y[:8] = 1 - y[:8]
    outputs = BaseOutputs((Part(Predictions.parse(p), y, Predictions.parse(p)),), y, 2)
    spec = CalibratorSpec("w", "width-binning", grid={"n_bins": [2, 40]}, folds=4)
    assert calibrate(outputs, spec, HERE, 0).chosen[0]["n_bins"] in (2, 40)


def test_complaints(outputs, tmp_path):
    (tmp_path / "own.py").write_text("Nothing = dict\n")
    cases = [
        (CalibratorSpec("x", "temprature"), "did you mean 'temperature'"),
        (CalibratorSpec("x", "temperature", {"lss": 1}), "unexpected keyword argument 'lss'."),
        (CalibratorSpec("x", "width-binning", grid={"n_bin": [1]}), "n_bin"),
        (CalibratorSpec("x", "own.py:Nothing"), "no fit and predict_proba"),
        (CalibratorSpec("x", "temperature", select="luck"), "not 'luck'"),
        (CalibratorSpec("x", "temperature", refit="never"), "not 'never'"),
        (CalibratorSpec("x", parts=({"method": "temperature"},), parameters={"loss": 1}), "number.name"),
        (CalibratorSpec("x", parts=({"method": "own.py:Nothing"},)), "this library's kind"),
    ]
    for spec, words in cases:
        with pytest.raises(RecipeError) as caught:
            check_calibrator(spec, tmp_path)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
    part = replace(outputs.parts[0], training=None, training_labels=None)
    searched = CalibratorSpec("x", "width-binning", grid={"n_bins": [2, 3]}, select="training")
    with pytest.raises(StudyError, match="there are none"):
        calibrate(replace(outputs, parts=(part,)), searched, HERE, 0)


def test_matrix_scaling_is_what_searches_by_itself():
    """Should the class be renamed or split, the search must be looked at again."""
    assert all(
        isinstance(make(name), AffineScaling) for name in ("dirichlet-odir", "dirichlet-l2", "matrix-odir")
    )
