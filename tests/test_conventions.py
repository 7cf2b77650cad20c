"""Settings of published tables, by name."""

import pickle

import numpy as np
import pytest

from calibrant import Predictions, TemperatureScaling
from calibrant.binning import FixedEdges
from calibrant.conventions import convention, conventions
from calibrant.errors import ParameterError
from calibrant.metrics import confidence_ece
from data import load

NETWORKS = {
    # log-loss, Brier score, confidence-ECE, classwise-ECE, MCE, error: supplement of Kull et al. (2019),
    # tables 13 to 18, uncalibrated.
    "c10_convnet": ("0.39098", "0.01090", "0.04760", "0.10375", "0.59173", "6.18000"),
    "c10_densenet40": ("0.42821", "0.01274", "0.05500", "0.11430", "0.33396", "7.58000"),
    "c10_resnet110": ("0.35827", "0.01102", "0.04750", "0.09846", "0.29580", "6.44000"),
    "c100_convnet": ("1.64120", "0.00425", "0.17614", "0.42414", "0.36391", "26.12000"),
}
MEASURES = (
    "log_loss",
    "brier_score",
    "confidence_ece",
    "classwise_ece",
    "maximum_calibration_error",
    "error_rate",
)


@pytest.mark.parametrize("network", NETWORKS)
def test_six_tables_of_kull_to_every_digit(network):
    arrays = load(f"kull_nn/{network}")
    predictions = Predictions.from_logits(arrays["test_logits"])
    kull = convention("kull2019")
    computed = tuple(f"{kull.metrics[name](arrays['test_y'], predictions):.5f}" for name in MEASURES)
    assert computed == NETWORKS[network]


@pytest.mark.parametrize(
    ("network", "confidence", "classwise"),
    [("c10_densenet40", "5.493", "0.445"), ("c10_resnet110", "4.750", "0.358")],
)
def test_the_thesis_of_valk(network, confidence, classwise):
    """Uncalibrated: 5.493 and 0.445 for DenseNet-40; 4.75 and 0.36 for ResNet-110."""
    arrays = load(f"kull_nn/{network}")
    predictions = Predictions.from_logits(arrays["test_logits"])
    valk = convention("valk2022")
    assert f"{valk.confidence_ece(arrays['test_y'], predictions):.3f}" == confidence
    assert f"{valk.classwise_ece(arrays['test_y'], predictions):.3f}" == classwise


def test_bin_centres_of_wenger_after_temperature_scaling():
    """The authors' program gives 0.0249 where fifteen bins with their means give 0.0094."""
    arrays = load("cifar_netcal/c10_wideresnet_16_4")
    order = np.random.default_rng(0).permutation(len(arrays["y"]))
    first, last = order[:5000], order[5000:]
    p, y = arrays["probs"].astype(np.float64), arrays["y"]
    scaled = TemperatureScaling().fit(p[first], y[first]).predict_proba(p[last])
    assert f"{convention('wenger2020').confidence_ece(y[last], scaled):.4f}" == "0.0249"
    assert f"{confidence_ece(y[last], scaled):.4f}" == "0.0094"


def test_a_norm_above_one_has_no_root_in_wenger():
    """One bin: confidence 0.995 is in the last of 100 bins on [1/2, 1], whose centre is taken as 0.995."""
    error = convention("wenger2020").confidence_ece([0, 1], [[0.998, 0.002]] * 2, norm=2)
    assert error == pytest.approx((0.995 - 0.5) ** 2)


def test_zeros_are_left_out_by_valk():
    """Class 0 is given 0 in two rows, one of which is of class 0; the other two are exactly right."""
    p = [[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]
    assert convention("valk2022").classwise_ece([0, 1, 0, 0], p, n_bins=1) == pytest.approx(
        100 * (0 + 0.5) / 2
    )


def test_equal_scores_may_fall_into_two_bins_of_valk():
    """Four equal scores in bins of two: outcomes in the order of the rows, right, right, wrong, wrong."""
    p = [[0.8, 0.2]] * 4
    assert convention("valk2022").confidence_ece([0, 0, 1, 1], p, n_bins=2) == pytest.approx(
        100 * (0.2 + 0.8) / 2
    )
    with pytest.raises(ParameterError, match="cannot use weights"):
        convention("valk2022").confidence_ece([0, 0, 1, 1], p, sample_weight=[1, 1, 1, 1])


def test_ten_bins_of_tomani():
    generator = np.random.default_rng(0)
    p, y = generator.dirichlet(np.ones(3), 200), generator.integers(0, 3, 200)
    assert convention("tomani2022").confidence_ece(y, p) == pytest.approx(confidence_ece(y, p, n_bins=10))


@pytest.mark.parametrize("name", conventions())
def test_a_convention_says_what_it_computes(name):
    described = str(convention(name))
    assert described.startswith(f"{name}: ")
    assert "confidence_ece" in described
    assert str(pickle.loads(pickle.dumps(convention(name)))) == described


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "kull2019",
            "brier_score: brier_mean_over_classes(), the squared difference, the mean over rows and classes, in "
            "squared probability",
        ),
        ("kull2019", "error_rate: error_rate_in_percent(), the error rate in per cent"),
        (
            "valk2022",
            "confidence_ece: confidence_ece_of_equal_counts_in_percent(n_bins=15), confidence-ECE with bins of "
            "equal counts, in per cent",
        ),
        (
            "valk2022",
            "classwise_ece: classwise_ece_of_equal_counts_in_percent(n_bins=15), classwise-ECE, the mean over "
            "classes, with bins of equal counts and without zeros, in per cent",
        ),
        ("valk2022", "log_loss: log_loss(floor=1e-15)"),
    ],
)
def test_functions_of_its_own_are_defined_in_words_with_their_unit(name, line):
    assert line in str(convention(name)).splitlines()


def test_many_edges_are_printed_to_four_digits():
    (line,) = [line for line in str(convention("kull2019")).splitlines() if line.startswith("classwise_ece")]
    assert "edges=(0, 0.07143, 0.1429, " in line
    assert "0.9286, 1, 1))" in line
    assert len(line) < 240
    assert (
        repr(FixedEdges((0, 1 / 3, 1))) == "FixedEdges(closed='left', edges=(0.0, 0.3333333333333333, 1.0))"
    )


def test_unknown_names_are_refused():
    with pytest.raises(ParameterError, match=r"there is no convention 'kull'; known are \['guo2017'"):
        convention("kull")
    with pytest.raises(AttributeError, match="guo2017 has no log_loss; it has"):
        _ = convention("guo2017").log_loss
