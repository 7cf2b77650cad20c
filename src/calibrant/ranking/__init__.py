"""Ranking statistics to compare several methods on several tasks (Friedman, Nemenyi, Wilcoxon-Holm).

Tables have one row per task and one column per method: a data frame whose columns name the methods, or an array.
Tasks without a result for some method are left out with a warning that counts them, or raise an error
(``missing="raise"``). Smaller numbers are better unless ``higher_is_better=True``; an infinite loss ranks last.
Start with :func:`friedman_test`. If methods differ, :func:`nemenyi_test` or :func:`wilcoxon_holm` shows which, and
:func:`bonferroni_dunn_test` compares one of them with the rest.
"""

from calibrant.ranking.critical_difference import critical_difference, groups_without_difference
from calibrant.ranking.friedman import (
    BonferroniDunnResult,
    FriedmanResult,
    NemenyiResult,
    bonferroni_dunn_test,
    friedman_test,
    nemenyi_test,
)
from calibrant.ranking.holm import holm
from calibrant.ranking.ranks import average_ranks, ranks
from calibrant.ranking.wilcoxon import WilcoxonHolmResult, wilcoxon_holm

__all__ = [
    "BonferroniDunnResult",
    "FriedmanResult",
    "NemenyiResult",
    "WilcoxonHolmResult",
    "average_ranks",
    "bonferroni_dunn_test",
    "critical_difference",
    "friedman_test",
    "groups_without_difference",
    "holm",
    "nemenyi_test",
    "ranks",
    "wilcoxon_holm",
]
