"""Calibrators that are not fitted, or hold what a file cannot."""

import warnings
from typing import NamedTuple

import numpy as np
import pytest
from crafted_archives import three_of_four
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

from calibrant import Chain, TemperatureScaling, load, registry
from calibrant.calibrator import Calibrator, Traits
from calibrant.errors import CalibrationWarning, FileFormatError, ParameterError
from calibrant.predictions import Predictions
from calibrant.space import Space

X, Y = [[0.9, 0.1]] * 4, [0, 0, 0, 1]


class Stub(Calibrator):
    """Hands on what comes in; subclasses do one thing otherwise."""

    traits = Traits()

    def _fit(self, data):
        pass

    def _transform(self, predictions):
        return predictions


class Opaque(Stub):
    def __init__(self, required, function=np.exp, other=None):
        self.required = required
        self.function = function
        self.other = other


class Secretive(Stub):
    def _fit(self, data):
        self._hidden = data.n_classes > 1

    def _transform(self, predictions):
        assert self._hidden
        return predictions


class Sharpening(Stub):
    """Its prediction needs a parameter that a file cannot hold."""

    def __init__(self, sharpen=None):
        self.sharpen = sharpen

    def _transform(self, predictions):
        if self.sharpen is None:
            return predictions
        return Predictions(self.sharpen(predictions.logits), Space.LOGITS)


class Drawing(Stub):
    """Never predicts the same twice."""

    def _transform(self, predictions):
        noise = np.random.default_rng().normal(size=predictions.logits.shape)
        return Predictions(predictions.logits + noise, Space.LOGITS)


class Complaining(Stub):
    def _transform(self, predictions):
        warnings.warn("this is a probe", RuntimeWarning, stacklevel=1)
        np.log(np.zeros(1))
        return predictions


class Pair(NamedTuple):
    first: int
    second: int


@pytest.fixture(autouse=True)
def stubs_are_registered(monkeypatch):
    for cls in (Opaque, Secretive, Sharpening, Drawing, Complaining):
        monkeypatch.setitem(registry._classes(), cls.__name__, cls)


def test_an_unfitted_calibrator_is_refused(tmp_path):
    with pytest.raises(NotFittedError, match=r"this TemperatureScaling is not fitted, .* call fit first"):
        TemperatureScaling().save(tmp_path / "calibrator")
    assert list(tmp_path.iterdir()) == []


def test_a_calibrator_whose_fit_failed_is_refused(tmp_path):
    calibrator = TemperatureScaling(bounds=(2, 3))
    with pytest.raises(ParameterError):
        calibrator.fit(X, Y)
    with pytest.raises(NotFittedError, match="is not fitted"):
        calibrator.save(tmp_path / "calibrator")


def test_a_splitter_is_replaced_by_the_default_and_named(tmp_path):
    calibrator = registry.make("matrix-l2", cv=KFold(2), reg_lambda=1e-2).fit(
        X + [[0.2, 0.8]] * 4, Y + Y[::-1]
    )
    with pytest.warns(
        CalibrationWarning, match="the parameter cv of MatrixScaling is of type KFold"
    ) as record:
        calibrator.save(tmp_path / "calibrator")
    assert [warning.filename for warning in record] == [__file__]
    loaded = load(tmp_path / "calibrator")
    assert loaded.cv == type(calibrator)().cv
    assert loaded.reg_lambda == 1e-2
    assert isinstance(calibrator.cv, KFold)
    assert np.array_equal(loaded.predict_proba(X), calibrator.predict_proba(X))


def test_a_parameter_of_a_nested_calibrator_is_named_with_its_path(tmp_path):
    chain = Chain([TemperatureScaling()]).fit(X, Y)
    chain.calibrators = [TemperatureScaling(), TemperatureScaling(bounds={1, 2})]
    with pytest.warns(CalibrationWarning, match=r"calibrators\[1\]\.bounds of Chain is of type set"):
        chain.save(tmp_path / "calibrator")
    assert load(tmp_path / "calibrator").calibrators[1].bounds == (1e-3, 1e3)


def test_arrays_of_a_parameter_that_is_given_up_leave_no_trace(tmp_path):
    calibrator = Opaque(1, other=[np.zeros(3), {"x": print}]).fit(X, Y)
    with pytest.warns(CalibrationWarning, match=r"the parameter other of Opaque is of type builtin"):
        calibrator.save(tmp_path / "calibrator")
    assert load(tmp_path / "calibrator").other is None


def test_a_default_that_cannot_be_stored_is_no_reason_to_warn(tmp_path):
    Opaque(required=1).fit(X, Y).save(tmp_path / "calibrator")
    assert load(tmp_path / "calibrator").function is np.exp


def test_a_parameter_without_default_must_be_storable(tmp_path):
    with pytest.raises(FileFormatError, match="Opaque cannot be saved, because its required is of type set"):
        Opaque(required={1}).fit(X, Y).save(tmp_path / "calibrator")


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (print, "example_ is of type builtin_function_or_method"),
        ([1, {"a": {2}}], r"example_\[1\]\['a'\] is of type set"),
        (Pair(1, 2), "of type Pair"),
        (1j, "of type complex"),
        (b"bytes", "of type bytes"),
        ({(1, 2): 3}, "a dict with a key of type tuple"),
        ({None: 3}, "a dict with a key of type NoneType"),
        ({float("nan"): 3}, "a dict with a key nan"),
        ({float("inf"): 3}, "a dict with a key inf"),
        ({2**70: 3}, "a dict with a key 1180591620717411303424"),
        ({np.float32("nan"): 3}, "a dict with a key of type float32"),
        ({1: {2: print}}, "of type builtin_function_or_method"),
        ({1: 2, "\ud800": 3}, "text with a lone surrogate"),
        (2**1024, "an integer of more than 1024 bits"),
        ("\ud83d\ude00", "text with a lone surrogate"),
        (np.array([None]), "an array of type object"),
        (np.zeros(2, complex), "an array of type complex128"),
        (np.zeros(2, [("a", "f8")]), "an array of type .*'a'"),
        (np.zeros(2, "M8[s]"), "an array of type datetime64"),
        (np.ma.masked_array([1.0], [True]), "of type MaskedArray"),
        (np.datetime64("2020-01-01"), "of type datetime64"),
        (nested(100), "nested more than 64 deep"),
        (KFold(2), "of type KFold"),
        (Stub(), "of class Stub, which the registry does not know"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else "",
)
def test_a_fitted_attribute_that_cannot_be_stored_is_an_error_that_names_it(value, reason, tmp_path):
    calibrator = three_of_four()
    calibrator.example_ = value
    with pytest.raises(FileFormatError, match=reason) as caught:
        calibrator.save(tmp_path / "calibrator")
    assert str(caught.value).startswith("TemperatureScaling cannot be saved, because its example_")
    assert list(tmp_path.iterdir()) == []


def test_a_value_that_contains_itself_is_an_error(tmp_path):
    calibrator = three_of_four()
    calibrator.example_ = []
    calibrator.example_.append(calibrator.example_)
    with pytest.raises(FileFormatError, match="contains itself"):
        calibrator.save(tmp_path / "calibrator")


def test_an_attribute_in_capitals_is_an_error(tmp_path):
    calibrator = three_of_four()
    calibrator.X_ = 1
    with pytest.raises(FileFormatError, match="its X_ is named otherwise than in lower case"):
        calibrator.save(tmp_path / "calibrator")


def test_private_attributes_are_left_out(tmp_path):
    calibrator = three_of_four()
    calibrator._cache_ = print
    calibrator.note = print
    calibrator.save(tmp_path / "calibrator")
    assert not {"_cache_", "note"} & set(vars(load(tmp_path / "calibrator")))


def test_a_class_outside_the_registry_is_an_error(tmp_path):
    with pytest.raises(FileFormatError, match="it is of class Stub, which the registry does not know"):
        Stub().fit(X, Y).save(tmp_path / "calibrator")


def test_a_namesake_of_a_registered_class_is_an_error(tmp_path):
    namesake = type("TemperatureScaling", (Stub,), {})
    with pytest.raises(FileFormatError, match="which the registry does not know"):
        namesake().fit(X, Y).save(tmp_path / "calibrator")


def test_state_under_a_private_name_is_found_out_on_saving(tmp_path):
    """Otherwise the file would be refused as damaged, when it is too late."""
    with pytest.raises(FileFormatError, match=r"Secretive cannot be saved, .* attributes that end in "):
        Secretive().fit(X, Y).save(tmp_path / "calibrator")
    assert list(tmp_path.iterdir()) == []


def test_a_parameter_that_predictions_need_is_found_out_on_saving(tmp_path):
    calibrator = Sharpening(lambda logits: 2 * logits).fit(X, Y)
    with (
        pytest.warns(CalibrationWarning, match="sharpen"),
        pytest.raises(
            FileFormatError, match=r"does not reproduce the predictions .* its predictions need sharpen"
        ),
    ):
        calibrator.save(tmp_path / "calibrator")
    assert list(tmp_path.iterdir()) == []


def test_a_method_that_draws_at_random_can_be_saved(tmp_path):
    Drawing().fit(X, Y).save(tmp_path / "calibrator")
    assert isinstance(load(tmp_path / "calibrator"), Drawing)


def test_warnings_of_probing_do_not_leak(tmp_path):
    """Warnings are errors in these tests; and numpy is told to raise on top of that."""
    calibrator = Complaining().fit(X, Y)
    with np.errstate(all="raise"):
        calibrator.save(tmp_path / "calibrator")
        load(tmp_path / "calibrator")
