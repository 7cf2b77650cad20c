"""The checks of scikit-learn as parameters of a test."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

__all__ = ["with_checks"]


def with_checks(estimators: list[Any], **options: Any) -> pytest.MarkDecorator:
    """Return ``parametrize_with_checks`` with a list of cases; older releases pass a generator, which pytest rejects."""
    mark = parametrize_with_checks(estimators, **options)
    names, cases = mark.args
    return pytest.mark.parametrize(names, list(cases), **mark.kwargs)
