"""Binning by the authors' programs on the softmax outputs of a wide residual network, CIFAR-10.

The programs were run elsewhere. Where one cuts bins in a way of its own, its rule is written out here as a scheme for
``binning=``.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from reference_split import figures
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from calibrant import HistogramBinning, OneVsRest, ScalingBinning
from calibrant.binning import EqualWidth, FixedEdges
from calibrant.calibrator import Traits
from calibrant.calibrators.reductions.binary_method import BinaryMethod

# Kull et al. (2019), tables without networks: Laplace smoothing, an empty bin gets 1/2.

KULL_WIDTH = {
    5: ("0.39328", "0.14220", "0.02326", "0.006291", "0.9182"),
    10: ("0.36329", "0.13473", "0.02579", "0.006563", "0.9184"),
    15: ("0.34786", "0.13215", "0.02557", "0.006516", "0.9162"),
    20: ("0.34226", "0.13128", "0.02517", "0.006589", "0.9162"),
    25: ("0.33941", "0.13097", "0.02270", "0.006635", "0.9160"),
    30: ("0.33452", "0.13067", "0.02204", "0.006851", "0.9142"),
}


@pytest.mark.parametrize("n_bins", KULL_WIDTH)
def test_equal_width_of_kull(halves, n_bins):
    """Their bins reach from the smallest to the largest score of calibration."""
    p, y, test, test_labels = halves
    calibrator = HistogramBinning("range", n_bins, prior=0.5, empty="prior").fit(p, y)
    assert figures(calibrator.predict_proba(test), test_labels).printed() == KULL_WIDTH[n_bins]


@dataclass(frozen=True)
class EveryFewRows:
    """Edges at every ceil(n / B)-th of the sorted scores; the last bin has what is left."""

    n_bins: int

    def __call__(self, scores, weights=None, /):  # noqa: ARG002
        edges = np.sort(scores)[:: int(np.ceil(len(scores) / self.n_bins))]
        return FixedEdges([-np.inf, *edges[1:], np.inf])


KULL_FREQUENCY = {
    5: ("0.46033", "0.23520", "0.02548", "0.012339", "0.7692"),
    10: ("0.28684", "0.12680", "0.01834", "0.007008", "0.9192"),
    15: ("0.30140", "0.14236", "0.03378", "0.010276", "0.8808"),
    20: ("0.28229", "0.12354", "0.03119", "0.009661", "0.9192"),
    25: ("0.29168", "0.12900", "0.04191", "0.012188", "0.9044"),
    30: ("0.28885", "0.12218", "0.04625", "0.012772", "0.9166"),
}


@pytest.mark.parametrize("n_bins", KULL_FREQUENCY)
def test_equal_frequency_of_kull(halves, n_bins):
    p, y, test, test_labels = halves
    calibrator = HistogramBinning(binning=EveryFewRows(n_bins), prior=0.5, empty="prior").fit(p, y)
    assert figures(calibrator.predict_proba(test), test_labels).printed() == KULL_FREQUENCY[n_bins]


@pytest.mark.parametrize("n_bins", [10, 15, 20, 25, 30])
def test_the_base_rate_is_a_better_prior_than_one_half_for_bins_of_equal_mass(halves, n_bins):
    """The same bins, 1/10 instead of 1/2: what the default is for."""
    p, y, test, test_labels = halves
    base_rate, one_half = (
        figures(HistogramBinning("quantile", n_bins, prior=prior).fit(p, y).predict_proba(test), test_labels)
        for prior in (None, 0.5)
    )
    assert base_rate.log_loss < one_half.log_loss - 0.01


# Raw frequencies.

RAW_WIDTH = {
    # Kull et al. for networks, Wenger et al. and netcal agree where no bin is empty.
    10: ("inf (0.38951)", "0.13593", "0.02662", "0.006489", "0.9182"),
    15: ("inf (0.49130)", "0.13527", "0.02779", "0.006593", "0.9156"),
    20: ("inf (0.52542)", "0.13520", "0.02541", "0.006532", "0.9152"),
}
RAW_OPTIONS = {
    "kull, networks": lambda n_bins: {"binning": EqualWidth(n_bins, closed="right"), "empty": 0.0},
    "wenger": lambda n_bins: {"n_bins": n_bins},
    "netcal": lambda n_bins: {"binning": EqualWidth(n_bins, closed="right"), "empty": "centre"},
}


@pytest.mark.parametrize("program", RAW_OPTIONS)
@pytest.mark.parametrize("n_bins", RAW_WIDTH)
def test_raw_frequencies_in_bins_of_equal_width(halves, program, n_bins):
    p, y, test, test_labels = halves
    calibrator = HistogramBinning(smoothing=0.0, **RAW_OPTIONS[program](n_bins)).fit(p, y)
    assert figures(calibrator.predict_proba(test), test_labels).printed() == RAW_WIDTH[n_bins]


@dataclass(frozen=True)
class Quantiles:
    """Edges at the interpolated quantiles of the scores."""

    n_bins: int

    def __call__(self, scores, weights=None, /):  # noqa: ARG002
        return FixedEdges(np.unique(np.quantile(scores, np.linspace(0, 1, self.n_bins + 1))))


WENGER_FREQUENCY = {
    # What the program gives, and what it would give without its fault.
    15: (
        ("inf (0.31913)", "0.14227", "0.01245", "0.006139", "0.8788"),
        ("inf (0.31835)", "0.14184", "0.01228", "0.006151", "0.8794"),
    ),
    20: (
        ("inf (0.31114)", "0.12306", "0.01017", "0.005675", "0.9186"),
        ("inf (0.31037)", "0.12263", "0.01000", "0.005626", "0.9192"),
    ),
}


@pytest.mark.parametrize("n_bins", WENGER_FREQUENCY)
def test_equal_frequency_of_wenger(halves, n_bins):
    """A score below all of calibration has bin number -1 in the program, which is the last bin: eight scores of the test
    half, all below 1e-12, become the largest probability of their class. Here they belong to the first bin.
    """
    p, y, test, test_labels = halves
    program, corrected = WENGER_FREQUENCY[n_bins]
    one_vs_rest = OneVsRest(HistogramBinning(binning=Quantiles(n_bins), smoothing=0.0)).fit(p, y)
    assert figures(one_vs_rest.predict_proba(test), test_labels).printed() == corrected
    separate = one_vs_rest.class_probabilities(test)
    below = test < p.min(axis=0)
    assert below.sum() == 8
    assert test[below].max() < 1e-12
    for column, calibrator in enumerate(one_vs_rest.calibrators_):
        separate[below[:, column], column] = calibrator.values_[-1]
    assert figures(separate / separate.sum(axis=1, keepdims=True), test_labels).printed() == program


# Kumar et al. (2019): bins of equal mass, raw frequencies or means of Platt's map.


@dataclass(frozen=True)
class EqualChunks:
    """Edges midway between chunks of the sorted scores whose sizes differ by one at most, (a, b]."""

    n_bins: int

    def __call__(self, scores, weights=None, /):  # noqa: ARG002
        chunks = np.array_split(np.sort(scores), self.n_bins)
        between = [(a[-1] + b[0]) / 2 for a, b in pairwise(chunks)]
        return FixedEdges([0.0, *np.unique([*between, 1.0])], closed="right")


KUMAR_HISTOGRAM = {
    # Rows that sum to one, and as the program leaves them.
    10: (
        ("inf (0.28847)", "0.12628", "0.00883", "0.005308", "0.9194"),
        ("inf (0.31376)", "0.14357", "0.01882", "0.002723", "0.9194"),
    ),
    15: (
        ("inf (0.31774)", "0.14157", "0.01315", "0.006210", "0.8800"),
        ("inf (0.36790)", "0.18643", "0.05209", "0.002619", "0.8800"),
    ),
    100: (
        ("inf (0.46166)", "0.11822", "0.01242", "0.005538", "0.9210"),
        ("inf (0.46817)", "0.12135", "0.01567", "0.003992", "0.9210"),
    ),
}


@pytest.mark.parametrize("n_bins", KUMAR_HISTOGRAM)
def test_raw_frequencies_of_kumar(halves, n_bins):
    p, y, test, test_labels = halves
    normalised, raw = KUMAR_HISTOGRAM[n_bins]
    fitted = OneVsRest(HistogramBinning(binning=EqualChunks(n_bins), smoothing=0.0)).fit(p, y)
    assert figures(fitted.predict_proba(test), test_labels).printed() == normalised
    assert figures(fitted.class_probabilities(test), test_labels).printed() == raw


def test_bins_of_equal_mass_are_theirs_where_the_number_of_rows_is_a_multiple(halves):
    """5000 rows in ten bins, none of which is cut between equal scores."""
    p, y, test, test_labels = halves
    fitted = HistogramBinning("quantile", 10, smoothing=0.0).fit(p, y)
    assert figures(fitted.predict_proba(test), test_labels).printed() == KUMAR_HISTOGRAM[10][0]


class RoughPlatt(BinaryMethod):
    """Logistic regression on log-odds, with their clipping and left where their solver stops."""

    traits = Traits()

    def _check_parameters(self):
        pass

    def _fit_event(self, scores, outcomes, weights):  # noqa: ARG002
        self.line_ = LogisticRegression(C=1e10).fit(self._log_odds(scores), outcomes)

    def _traced_event(self, event):
        clipped = event.probability.clip(1e-12, 1 - 1e-12)
        log_odds = clipped.log(1e-300) - (1 - clipped).log(1e-300)
        line = log_odds * self.line_.coef_.item() + self.line_.intercept_.item()
        return event.with_probability(line.function("sigmoid"))

    def _log_odds(self, scores):
        return logit(np.clip(scores.probability, 1e-12, 1 - 1e-12))[:, np.newaxis]


KUMAR_SCALING = {
    10: (
        ("0.27180", "0.12612", "0.00770", "0.005402", "0.9180"),
        ("0.29750", "0.14346", "0.01865", "0.002369", "0.9180"),
    ),
    15: (
        ("0.27880", "0.14156", "0.01280", "0.006625", "0.8780"),
        ("0.32879", "0.18631", "0.05069", "0.002550", "0.8780"),
    ),
    100: (
        ("0.23781", "0.11660", "0.00972", "0.005830", "0.9210"),
        ("0.24280", "0.11932", "0.01035", "0.003586", "0.9210"),
    ),
}


@pytest.mark.parametrize("n_bins", KUMAR_SCALING)
def test_scaling_binning_of_kumar(halves, n_bins):
    p, y, test, test_labels = halves
    normalised, raw = KUMAR_SCALING[n_bins]
    fitted = OneVsRest(ScalingBinning(RoughPlatt(), binning=EqualChunks(n_bins))).fit(p, y)
    assert figures(fitted.predict_proba(test), test_labels).printed() == normalised
    assert figures(fitted.class_probabilities(test), test_labels).printed() == raw


@pytest.mark.parametrize("n_bins", [10, 100])
def test_scaling_binning_without_the_programs_peculiarities(halves, n_bins):
    """An exact Platt fit without clipping moves the log-loss in the fifth digit only."""
    p, y, test, test_labels = halves
    fitted = OneVsRest(ScalingBinning(n_bins=n_bins)).fit(p, y)
    for calibrated, expected in zip(
        (fitted.predict_proba(test), fitted.class_probabilities(test)), KUMAR_SCALING[n_bins], strict=True
    ):
        ours = np.array(figures(calibrated, test_labels).printed(), dtype=float)
        np.testing.assert_allclose(ours, np.array(expected, dtype=float), rtol=0, atol=7e-5)
