"""WithIntervals: where coverage can be below the level, ``caution_`` says so, and "auto" gives no interval."""

import numpy as np
import pytest

from calibrant import Chain, IsotonicCalibration, TemperatureScaling, WithIntervals, load
from calibrant.errors import ParameterError


def rows(n_classes, n_rows=80):
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(n_classes), n_rows)
    return p, np.minimum((generator.random((n_rows, 1)) > p.cumsum(axis=1)).sum(axis=1), n_classes - 1)


@pytest.mark.parametrize(
    "method", ["temperature", "vector", "platt", "beta", "dirichlet", "ets", "temperature+vector"]
)
def test_maximum_likelihood_has_intervals(method):
    p, y = rows(3)
    fitted = WithIntervals(method, n_draws=20).fit(p, y)
    assert fitted.caution_ is None
    assert (np.less_equal(*fitted.predict_interval(p))).all()


@pytest.mark.parametrize(
    ("method", "n_classes", "used", "reason"),
    [
        ("dirichlet-l2", 3, "laplace", "a penalty biases the probabilities"),
        ("gp", 2, "own", "kernel parameters are taken as known"),
        ("isotonic", 2, "bootstrap", "refits repeat the bias"),
        (Chain([TemperatureScaling(), IsotonicCalibration()]), 2, "bootstrap", "refits repeat the bias"),
    ],
    ids=str,
)
def test_others_give_none_unless_their_method_is_named(method, n_classes, used, reason, tmp_path):
    p, y = rows(n_classes)
    fitted = WithIntervals(method, n_draws=20).fit(p, y)
    assert reason in fitted.caution_
    assert np.isfinite(fitted.predict_proba(p)).all()
    fitted.save(tmp_path / "fitted.npz")
    for one in (fitted, load(tmp_path / "fitted.npz")):
        with pytest.raises(ParameterError, match=f"{reason}.*; set method='{used}' for an interval"):
            one.predict_interval(p)
    named = WithIntervals(method, used, n_draws=20).fit(p, y)
    assert named.caution_ == fitted.caution_
    assert (np.less_equal(*named.predict_interval(p))).all()
