"""Folds for an honest comparison: rows at random, whatever their labels."""

from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold

from calibrant.calibrators.automatic.stratified_folds import stratified_folds
from calibrant.calibrators.inner_folds import check_cv_parameter, folds_of_splits
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import Fold
from calibrant.options import is_whole

__all__ = ["random_folds"]


def random_folds(cv: Any, data: LabelledPredictions, random_state: int = 0) -> list[Fold]:
    """Return the folds that a user asks for; a number of them deals out rows, or whole groups, at random.

    Not by class: if every fold had the class shares of the rows that maps are fitted to, an error in these shares, and
    so in the intercepts of a map, would not be seen, and maps with many of them would look better than they are.
    Splitters of scikit-learn get labels and groups and are taken at their word.
    """
    check_cv_parameter(cv)
    if not is_whole(cv, 2):
        return stratified_folds(cv, data)
    rows = np.zeros(data.n_rows)
    if data.groups is None:
        splits = KFold(min(int(cv), data.n_rows), shuffle=True, random_state=random_state).split(rows)
    else:
        n_groups = len(np.unique(data.groups))
        if n_groups < 2:
            raise ParameterError(
                "all rows are of one group, so that none can be held out; give groups of at least two kinds."
            )
        splitter = GroupKFold(min(int(cv), n_groups), shuffle=True, random_state=random_state)
        splits = splitter.split(rows, groups=data.groups)
    return folds_of_splits(splits, data.weights)
