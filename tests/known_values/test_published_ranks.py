"""Published ranks, Friedman statistics, critical differences and loss gaps, to every printed digit.

Sources: Kull et al. (2019), supplement, section D.2 with table 4, and table 15; Demsar (2006), sections 3.1.3 and
3.2.2, tables 2, 5 and 6; Valk (2022), tables 1, 4, 10 and 16; Orange's function ``compute_CD``.
"""

from itertools import product

import numpy as np
import pytest
from scipy.stats import rankdata

from calibrant import Predictions, TemperatureScaling
from calibrant.metrics.loss_gap import average_loss_gap
from calibrant.ranking import (
    average_ranks,
    bonferroni_dunn_test,
    critical_difference,
    friedman_test,
    nemenyi_test,
    ranks,
    wilcoxon_holm,
)
from calibrant.ranking.wilcoxon import signed_rank_p_value
from data import load

# Log-loss of calibrated naive Bayes classifiers and, behind the colon, the rank of the unrounded figure.
# Columns: Uncal, DirL2, DirODIR, Beta, TempS, VecS, Isot, FreqB, WidthB.
KULL_TABLE_4 = [
    "1.95:9 0.89:1 0.89:2 0.89:5 0.89:6 0.89:4 0.90:7 0.89:3 0.92:8",  # abalone
    "0.48:9 0.22:2 0.22:1 0.31:4 0.41:8 0.23:3 0.38:7 0.36:6 0.35:5",  # balance-sc
    "1.57:9 0.38:2 0.38:1 0.59:6 0.92:8 0.43:3 0.56:5 0.55:4 0.67:7",  # car
    "2.72:9 1.02:2 1.00:1 1.30:6 1.36:8 1.08:3 1.32:7 1.12:4 1.14:5",  # cleveland
    "2.57:9 0.20:1 0.41:7 0.36:5 0.31:3 0.44:8 0.33:4 0.23:2 0.40:6",  # dermatolog
    "2.93:9 1.12:1 1.57:6 1.62:8 1.35:4 1.48:5 1.58:7 1.13:3 1.12:2",  # glass
    "0.13:4 0.11:1 0.12:3 0.13:5 0.12:2 0.13:6 0.30:8 0.33:9 0.21:7",  # iris
    "3.87:9 0.35:1 0.36:2 0.55:4 0.61:7 0.55:3 0.58:5 0.58:6 0.74:8",  # landsat-sa
    "4.99:9 0.94:1 1.73:7 1.32:3 1.16:2 1.33:4 2.04:8 1.66:6 1.43:5",  # libras-mov
    "0.45:9 0.20:1 0.20:2 0.23:3 0.24:5 0.23:4 0.39:8 0.38:7 0.29:6",  # mfeat-karh
    "1.78:9 0.71:1 0.79:2 0.91:7 1.01:8 0.86:5 0.85:4 0.82:3 0.88:6",  # mfeat-morp
    "1.73:9 0.60:2 0.59:1 0.71:3 0.76:5 0.71:4 0.85:8 0.82:6 0.84:7",  # mfeat-zern
    "3.23:9 0.46:3 0.46:2 0.54:6 0.83:7 0.52:5 0.43:1 0.47:4 0.84:8",  # optdigits
    "0.76:9 0.17:1 0.17:3 0.19:4 0.48:8 0.21:6 0.17:2 0.20:5 0.21:7",  # page-block
    "1.29:9 0.19:2 0.19:1 0.46:3 0.53:7 0.46:4 0.47:5 0.48:6 0.58:8",  # pendigits
    "1.39:9 0.28:1 0.31:2 0.46:4 0.53:7 0.46:5 0.47:6 0.46:3 0.56:8",  # segment
    "2.34:9 0.98:1 0.99:2 1.08:5 1.16:7 1.07:4 1.17:8 1.04:3 1.10:6",  # vehicle
    "0.83:5 0.55:1 0.62:2 0.80:3 0.85:6 0.80:4 1.04:8 1.06:9 0.89:7",  # vowel
    "0.80:9 0.33:1 0.33:2 0.37:4 0.43:7 0.35:3 0.39:6 0.38:5 0.46:8",  # waveform-5
    "5.12:9 1.26:2 1.22:1 1.33:6 2.06:8 1.32:5 1.29:3 1.31:4 1.43:7",  # yeast
]

# Confidence-ECE of networks. Columns: Uncal, TempS, Dir-L2, Dir-ODIR, VecS, MS-ODIR.
KULL_TABLE_15 = [
    "0.04760:6 0.01065:5 0.00769:2 0.00960:4 0.00740:1 0.00782:3",  # c10_convnet
    "0.05500:6 0.00946:2 0.00568:1 0.01097:5 0.01018:4 0.00988:3",  # c10_densenet40
    "0.05180:6 0.01665:5 0.01383:3 0.01367:2 0.01310:1 0.01468:4",  # c10_lenet5
    "0.04750:6 0.01132:5 0.00680:1 0.01086:3 0.01130:4 0.01059:2",  # c10_resnet110
    "0.04113:6 0.00555:1 0.00646:4 0.00815:5 0.00579:3 0.00566:2",  # c10_resnet110_SD
    "0.04505:6 0.00784:4 0.00524:1 0.00837:5 0.00769:3 0.00727:2",  # c10_resnet_wide32
    "0.17614:6 0.01367:1 0.14347:5 0.02069:3 0.01965:2 0.02660:4",  # c100_convnet
    "0.21156:6 0.00902:1 0.12380:5 0.01138:2 0.01224:3 0.02197:4",  # c100_densenet40
    "0.12125:6 0.01499:4 0.01369:2 0.02003:5 0.01294:1 0.01407:3",  # c100_lenet5
    "0.18480:6 0.02380:1 0.14535:5 0.02822:4 0.02693:2 0.02735:3",  # c100_resnet110
    "0.15861:5 0.01214:1 0.15920:6 0.02283:4 0.01296:2 0.02246:3",  # c100_resnet110_SD
    "0.18784:6 0.01472:1 0.13509:5 0.01891:3 0.01718:2 0.02581:4",  # c100_resnet_wide32
    "0.07755:6 0.01179:4 0.01910:5 0.00997:2 0.00934:1 0.01037:3",  # SVHN_convnet
    "0.00862:6 0.00607:4 0.00691:5 0.00582:1 0.00595:2 0.00604:3",  # SVHN_resnet152_SD
]

# AUC of C4.5, C4.5+m, C4.5+cf and C4.5+m+cf on 14 data sets.
DEMSAR_TABLE_6 = [
    (0.763, 0.768, 0.771, 0.798),  # adult (sample)
    (0.599, 0.591, 0.590, 0.569),  # breast cancer
    (0.954, 0.971, 0.968, 0.967),  # breast cancer wisconsin
    (0.628, 0.661, 0.654, 0.657),  # cmc
    (0.882, 0.888, 0.886, 0.898),  # ionosphere
    (0.936, 0.931, 0.916, 0.931),  # iris
    (0.661, 0.668, 0.609, 0.685),  # liver disorders
    (0.583, 0.583, 0.563, 0.625),  # lung cancer
    (0.775, 0.838, 0.866, 0.875),  # lymphography
    (1.000, 1.000, 1.000, 1.000),  # mushroom
    (0.940, 0.962, 0.965, 0.962),  # primary tumor
    (0.619, 0.666, 0.614, 0.669),  # rheum
    (0.972, 0.981, 0.9751, 0.975),  # voting: both are printed 0.975, with the ranks 2 and 3
    (0.957, 0.978, 0.946, 0.970),  # wine
]


def printed(table):
    """Return the figures and the ranks of a table of ``figure:rank``."""
    pairs = np.array([[entry.split(":") for entry in row.split()] for row in table], dtype=float)
    return pairs[..., 0], pairs[..., 1]


def test_the_friedman_example_of_kull():
    """20 data sets, 9 methods: statistic 97.9, p = 1.14e-17, and the last row of the table."""
    losses, printed_ranks = printed(KULL_TABLE_4)
    by_rank = np.take_along_axis(losses, printed_ranks.argsort(axis=1), axis=1)
    assert (np.diff(by_rank, axis=1) >= 0).all()
    result = friedman_test(printed_ranks)
    assert (result.n_tasks, result.n_methods) == (20, 9)
    assert f"{result.statistic:.1f}" == "97.9"
    assert f"{result.p_value:.2e}" == "1.14e-17"
    assert result.average_ranks == pytest.approx([8.55, 1.40, 2.50, 4.70, 6.15, 4.40, 5.85, 4.90, 6.55])


def test_the_conclusion_of_kulls_example():
    """DirL2 is better than all other methods except DirODIR, on either number of sides."""
    names = ["Uncal", "DirL2", "DirODIR", "Beta", "TempS", "VecS", "Isot", "FreqB", "WidthB"]
    for sides in (1, 2):
        result = bonferroni_dunn_test(printed(KULL_TABLE_4)[1], names.index("DirL2"), sides=sides)
        assert {names[j] for j in np.flatnonzero(result.p_values > 0.05)} == {"DirL2", "DirODIR"}


def test_ranks_of_networks_by_kull():
    """Table 15 prints average ranks; the statistic is that of its figures."""
    scores, printed_ranks = printed(KULL_TABLE_15)
    np.testing.assert_array_equal(ranks(scores), printed_ranks)
    result = friedman_test(scores)
    assert result.average_ranks == pytest.approx([5.93, 2.79, 3.57, 3.43, 2.21, 3.07], abs=0.0051)
    assert result.statistic == pytest.approx(33.020408, abs=5e-7)
    assert f"{result.p_value:.2e}" == "3.73e-06"


def test_the_worked_example_of_demsar():
    """Chi-square 9.28 without correction for ties, F 3.69, average ranks of table 6."""
    result = friedman_test(DEMSAR_TABLE_6, higher_is_better=True, correct_for_ties=False)
    assert [f"{rank:.3f}" for rank in result.average_ranks] == ["3.143", "2.000", "2.893", "1.964"]
    assert f"{result.statistic:.2f}" == "9.28"
    assert f"{result.f_statistic:.2f}" == "3.69"


def test_demsars_critical_differences():
    """Nemenyi 1.25 and 1.12 at the levels 0.05 and 0.10; Bonferroni-Dunn 2.394 (4 x 5 / 84)^(1/2) at 0.05."""
    assert f"{critical_difference(4, 14):.2f}" == "1.25"
    assert f"{critical_difference(4, 14, alpha=0.1):.2f}" == "1.12"
    assert critical_difference(4, 14, test="bonferroni-dunn") == pytest.approx(
        2.394 * np.sqrt(20 / 84), abs=3e-4
    )
    at_ten_percent = nemenyi_test(DEMSAR_TABLE_6, higher_is_better=True, alpha=0.1)
    assert at_ten_percent.groups() == [("3", "1", "2"), ("2", "0")]


def test_demsars_comparisons_with_a_control():
    """The z of the text, 2.416, 2.342 and 0.512 against plain C4.5 (its error is rounded to 0.488 there)."""
    result = bonferroni_dunn_test(DEMSAR_TABLE_6, 0, higher_is_better=True)
    assert -result.z[[3, 1, 2]] == pytest.approx([2.416, 2.342, 0.512], abs=1.1e-3)
    assert result.p_values[3] == pytest.approx(3 * 0.016, abs=3 * 5e-4)


def test_demsars_signed_rank_example():
    """C4.5+m against C4.5: 93 of the ranks for it and 12 against, z = -2.54, the one zero split between both.

    The normal distribution gives p = 0.0111; of the 2^14 patterns of signs 0.8 % are as extreme.
    """
    scores = np.array(DEMSAR_TABLE_6).round(3)
    differences = (scores[:, 1] - scores[:, 0]).round(3)
    exact = signed_rank_p_value(differences, "zsplit")
    assert exact == wilcoxon_holm(scores[:, :2].round(3), zero_method="zsplit").raw_p_values[0, 1]
    places = rankdata(np.abs(differences))
    signs = np.array(list(product([-1, 1], repeat=14)))
    assert exact == np.mean(np.abs(signs @ places) >= 93 - 12)
    assert f"{81 / np.sqrt(places @ places):.2f}" == "2.54"


@pytest.mark.parametrize(
    ("test", "alpha", "table"),
    [
        ("nemenyi", 0.05, "1.960 2.343 2.569 2.728 2.850 2.949 3.031 3.102 3.164"),
        ("nemenyi", 0.10, "1.645 2.052 2.291 2.459 2.589 2.693 2.780 2.855 2.920"),
        ("bonferroni-dunn", 0.05, "1.960 2.241 2.394 2.498 2.576 2.638 2.690 2.734 2.773"),
        ("bonferroni-dunn", 0.10, "1.645 1.960 2.128 2.241 2.326 2.394 2.450 2.498 2.539"),
    ],
)
def test_demsars_tables_of_constants(test, alpha, table):
    """Table 5, for 2 to 10 methods, with 2.734 for the misprint 2.724; some last digits there are off by one."""
    for n_methods, constant in enumerate(table.split(), start=2):
        exact = critical_difference(n_methods, 1, test=test, alpha=alpha) / np.sqrt(
            n_methods * (n_methods + 1) / 6
        )
        assert exact == pytest.approx(float(constant), abs=1e-3)


def test_the_misprint_that_orange_took_over():
    """2.724 for nine methods is a level of 0.0516, not 0.05; exact to four digits it is 2.7344."""
    exact = critical_difference(9, 15, test="bonferroni-dunn")
    assert exact == pytest.approx(2.7344, abs=5e-5)
    assert critical_difference(9, 15, test="bonferroni-dunn", alpha=0.05159) == pytest.approx(2.724, abs=1e-4)


def test_the_constants_of_orange_with_six_digits():
    """Orange's list for Nemenyi at 0.05, for 2 to 20 methods."""
    orange = (
        "1.959964 2.343701 2.569032 2.727774 2.849705 2.94832 3.030879 3.101730 3.163684 3.218654 3.268004 "
        "3.312739 3.353618 3.39123 3.426041 3.458425 3.488685 3.517073 3.543799"
    )
    for n_methods, constant in enumerate(orange.split(), start=2):
        exact = critical_difference(n_methods, 1) / np.sqrt(n_methods * (n_methods + 1) / 6)
        assert exact == pytest.approx(float(constant), abs=2e-6)


@pytest.mark.parametrize(
    ("scores", "expected", "higher_is_better"),
    [
        ("0.079 0.031 0.020 0.024 0.023 0.027 0.025 0.017", "8 7 2 4 3 6 5 1", False),  # confidence CE
        ("0.056 0.028 0.015 0.021 0.023 0.022 0.022 0.014", "8 7 2 3 6 4 4 1", False),  # classwise CE
        ("0.492 0.481 0.479 0.480 0.479 0.480 0.480 0.478", "8 7 2 4 2 4 4 1", False),  # Brier score
        ("0.828 0.799 0.794 0.795 0.799 0.795 0.797 0.792", "8 6 2 3 6 3 5 1", False),  # log-loss
        ("0.624 0.624 0.627 0.624 0.626 0.625 0.625 0.625", "6 6 1 6 2 3 3 3", True),  # accuracy
        ("0.038 0.015 0.011 0.008 0.011 0.012 0.012 0.009", "8 7 3 1 3 5 5 2", False),  # average loss gap
    ],
)
def test_valks_ranks_after_rounding(scores, expected, higher_is_better):
    """Table 1: competition ranks of what is printed; noise below the third digit changes nothing."""
    noise = 4e-4 * np.sin(np.arange(8))
    row = np.array([scores.split()], dtype=float) + noise
    given = ranks(row, higher_is_better=higher_is_better, ties="min", decimals=3)
    np.testing.assert_array_equal(given[0], np.array(expected.split(), dtype=float))


def test_valks_average_ranks():
    """The last row of table 1, from the ranks of its six rows."""
    rows = ["8 7 2 4 3 6 5 1", "8 7 2 3 6 4 4 1", "8 7 2 4 2 4 4 1", "8 6 2 3 6 3 5 1", "6 6 1 6 2 3 3 3"]
    table = np.array([row.split() for row in [*rows, "8 7 3 1 3 5 5 2"]], dtype=float)
    averages = average_ranks(table, ties="min")
    assert averages == pytest.approx([7.7, 6.7, 2.0, 3.5, 3.7, 4.2, 4.3, 1.5], abs=0.051)


@pytest.mark.parametrize(
    ("network", "uncalibrated", "temperature_scaled"),
    [("c10_densenet40", "0.0295", "0.0063"), ("c10_resnet110", "0.0259", "0.0056")],
)
def test_valks_average_loss_gap(network, uncalibrated, temperature_scaled):
    """Tables 10 and 16: 500 losses for two decisions, from numpy's seed 0."""
    arrays = load(f"kull_nn/{network}")
    test = Predictions.from_logits(arrays["test_logits"])
    assert f"{average_loss_gap(arrays['test_y'], test):.4f}" == uncalibrated
    fitted = TemperatureScaling().fit(Predictions.from_logits(arrays["val_logits"]), arrays["val_y"])
    assert f"{average_loss_gap(arrays['test_y'], fitted.transform(test)):.4f}" == temperature_scaled
