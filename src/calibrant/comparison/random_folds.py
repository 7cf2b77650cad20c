"""Random folds for the comparison of methods, without stratification."""

from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold

from calibrant.calibrators.combinators.auto.folds import stratified_folds
from calibrant.calibrators.inner_folds import check_cv_parameter, folds_of_splits
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import Fold
from calibrant.options import is_whole

__all__ = ["random_folds"]


def random_folds(cv: Any, data: LabelledPredictions, random_state: int = 0) -> list[Fold]:
    """Return the folds for ``cv``; a number of folds splits rows, or groups, at random.

    Folds are not stratified. If every fold had the class frequencies of the training folds, errors in these frequencies, and
    so in intercepts, would be hidden, and methods with many intercepts would look too good. Splitters of scikit-learn get
    labels and groups.
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
                "all rows belong to one group, so cross-validation is impossible; give at least two groups."
            )
        splitter = GroupKFold(min(int(cv), n_groups), shuffle=True, random_state=random_state)
        splits = splitter.split(rows, groups=data.groups)
    return folds_of_splits(splits, data.weights)
