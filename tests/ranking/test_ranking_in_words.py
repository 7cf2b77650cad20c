"""Results of ranking statistics say in words what was found."""

import numpy as np
import pytest

from calibrant.ranking import bonferroni_dunn_test, nemenyi_test, wilcoxon_holm

# Method b is always best, a and c take turns; twelve tasks.
TABLE = np.array([[2.0, 1.0, 3.0], [3.0, 1.0, 2.0]] * 6)


def test_nemenyi_names_ranks_and_groups():
    """Average ranks 2.5, 1 and 2.5; only a and c are the same."""
    words = str(nemenyi_test(TABLE))
    assert words.startswith("Nemenyi's test on 12 tasks: average ranks 1 1.00, 0 2.50, 2 2.50; critical")
    assert words.endswith("not different: 0 = 2.")


@pytest.mark.parametrize(("sides", "words"), [(2, "different from 1: 0, 2."), (1, "worse than 1: 0, 2.")])
def test_bonferroni_dunn_names_those_that_differ_from_the_control(sides, words):
    assert str(bonferroni_dunn_test(TABLE, control=1, sides=sides)).endswith(words)


def test_wilcoxon_names_the_pairs():
    words = str(wilcoxon_holm(TABLE + np.linspace(0, 0.01, 12)[:, np.newaxis] * np.array([1, 2, 3])))
    assert "different at the 5 % level: 1 and " in words
    assert "0 and 2" not in words


def test_equal_methods_differ_in_nothing():
    assert str(wilcoxon_holm(np.ones((6, 3)))).endswith("different at the 5 % level: none.")


def test_one_task_is_not_many():
    assert "Nemenyi's test on 1 task: " in str(nemenyi_test([[1, 2]]))
    assert "Bonferroni-Dunn test on 1 task: " in str(bonferroni_dunn_test([[1, 2]], 0))
    assert "signed rank tests on 1 task, " in str(wilcoxon_holm([[1, 2]]))


def test_a_p_value_too_small_for_a_number_is_not_called_zero():
    """3000 differences of one sign lie some 47 standard deviations out."""
    losses = np.arange(3000.0)
    words = str(wilcoxon_holm(np.column_stack([losses, losses + 1 + losses / 1e4])))
    assert words.endswith("different at the 5 % level: 0 and 1 (p < 1e-300).")
