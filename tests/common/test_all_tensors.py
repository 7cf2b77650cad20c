"""Every calibrator takes tensors and arrays of more than two axes, and gives back the same kind."""

import numpy as np
import pytest
from methods import NAMES, fitted, n_classes_of, problem, settled

from calibrant import Predictions

every_method = pytest.mark.parametrize("name", NAMES)

IGNORED = -100
IMAGES = (2, 12, 15)  # 360 positions: the 320 rows of a problem, and 40 that do not count


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="torch is not installed; pip install torch")


@pytest.fixture(scope="module")
def strict():
    return pytest.importorskip(
        "array_api_strict", reason="array-api-strict is not installed; pip install array-api-strict"
    )


@every_method
@pytest.mark.parametrize("type_name", ["float32", "float64"])
def test_a_torch_tensor_gives_a_tensor_of_the_same_numbers(name, type_name, torch):
    X, _ = problem(n_classes_of(name))
    tensor = torch.tensor(X, dtype=getattr(torch, type_name), requires_grad=True)
    calibrator = fitted(name, n_classes_of(name))
    calibrated = calibrator.predict_proba(tensor)
    assert type(calibrated) is torch.Tensor
    assert (calibrated.dtype, calibrated.device) == (tensor.dtype, tensor.device)
    assert not calibrated.requires_grad
    np.testing.assert_array_equal(calibrated.numpy(), calibrator.predict_proba(X.astype(type_name)))
    np.testing.assert_array_equal(calibrator.predict(tensor).numpy(), calibrator.predict(X.astype(type_name)))


@every_method
@pytest.mark.parametrize("type_name", ["float16", "bfloat16"])
def test_short_floats_are_computed_in_float32_and_come_back_short(name, type_name, torch):
    X, _ = problem(n_classes_of(name))
    short = torch.tensor(X, dtype=getattr(torch, type_name))
    calibrator = fitted(name, n_classes_of(name))
    calibrated = calibrator.predict_proba(short)
    assert calibrated.dtype == short.dtype
    exact = Predictions.from_probabilities(short).scores
    assert exact.dtype == np.float32
    # Rows that were rounded need not sum to one as closely as others must.
    expected = calibrator._calibrated_rows(Predictions(exact, Predictions.parse(short).space))
    np.testing.assert_array_equal(calibrated.float().numpy(), torch.tensor(expected).to(short.dtype).float())


@every_method
def test_an_array_of_the_standard_on_another_device_comes_back_there(name, strict):
    X, _ = problem(n_classes_of(name))
    given = strict.asarray(X, device=strict.Device("device1"))
    calibrator = fitted(name, n_classes_of(name))
    calibrated = calibrator.predict_proba(given)
    assert calibrated.device == given.device
    assert calibrated.dtype == given.dtype
    np.testing.assert_array_equal(np.from_dlpack(calibrated), calibrator.predict_proba(X))


@every_method
def test_images_equal_their_rows(name):
    X, _ = problem(n_classes_of(name))
    shape = (5, 8, 8)
    images = np.moveaxis(X.reshape(*shape, -1), -1, 1)  # (B, K, H, W)
    calibrator = fitted(name, n_classes_of(name))
    given = Predictions.from_probabilities(images, class_axis=1)
    calibrated = calibrator.predict_proba(given)
    assert calibrated.shape == images.shape
    expected = calibrator.predict_proba(X)
    np.testing.assert_array_equal(np.moveaxis(calibrated, 1, -1).reshape(X.shape), expected)
    np.testing.assert_array_equal(calibrator.predict(given), calibrator.predict(X).reshape(shape))
    last = Predictions.from_probabilities(X.reshape(*shape, -1), class_axis=-1)
    np.testing.assert_array_equal(calibrator.predict_proba(last).reshape(X.shape), expected)


@every_method
def test_ignored_positions_equal_absent_rows(name):
    n_classes = n_classes_of(name)
    X, y = problem(n_classes)
    positions = np.setdiff1d(np.arange(np.prod(IMAGES)), np.arange(4, np.prod(IMAGES), 9))
    rows = np.full((np.prod(IMAGES), n_classes), 1 / n_classes)
    rows[positions] = X
    labels = np.full(len(rows), IGNORED)
    labels[positions] = y
    images = np.moveaxis(rows.reshape(*IMAGES, n_classes), -1, 1)
    given = Predictions.from_probabilities(images, class_axis=1, ignore_label=IGNORED)
    calibrator = settled(name).fit(given, labels.reshape(IMAGES))
    np.testing.assert_array_equal(
        calibrator.predict_proba(X), fitted(name, n_classes).predict_proba(X.copy())
    )
