"""Base classifiers by name: those of the published experiments, and any other of scikit-learn's kind."""

import warnings
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from calibrant.errors import PredictionError, RecipeError, StudyError
from calibrant.predictions import Predictions
from calibrant.studies.classifiers_qda import SmallClassQDA
from calibrant.studies.classifiers_svc import PairwiseSVC
from calibrant.studies.own_code import is_reference, load_object
from calibrant.studies.specifications import ClassifierSpec

__all__ = ["CLASSIFIERS", "check_classifier", "make_classifier", "scores_of", "trained"]


def _nbayes(**parameters: Any) -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB(**parameters)


def _logistic(**parameters: Any) -> Any:
    """Return one logistic regression per class, as scikit-learn had it when the tables were made."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    return OneVsRestClassifier(LogisticRegression(**{"solver": "liblinear", **parameters}))


def _multinomial(**parameters: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(**{"max_iter": 1000, **parameters})


def _adaboost(**parameters: Any) -> Any:
    from sklearn.ensemble import AdaBoostClassifier

    return AdaBoostClassifier(**{"n_estimators": 200, **parameters})


def _forest(**parameters: Any) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(**{"n_estimators": 200, **parameters})


def _boosting(**parameters: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(**parameters)


def _mlp(**parameters: Any) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(**parameters)


def _tree(**parameters: Any) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(**{"max_depth": 5, **parameters})


def _knn(**parameters: Any) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(**{"n_neighbors": 3, **parameters})


def _lda(**parameters: Any) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis(**parameters)


def _qda(**parameters: Any) -> Any:
    return SmallClassQDA(**{"reg_param": 0.1, **parameters})


def _svc_linear(**parameters: Any) -> Any:
    return _svc(**{"kernel": "linear", "C": 0.025, **parameters})


def _svc_rbf(**parameters: Any) -> Any:
    return _svc(**{"gamma": 2.0, "C": 1.0, **parameters})


def _svc(**parameters: Any) -> Any:
    return PairwiseSVC(**parameters)


CLASSIFIERS: dict[str, Callable[..., Any]] = {
    "logistic": _logistic,
    "nbayes": _nbayes,
    "forest": _forest,
    "adas": _adaboost,
    "lda": _lda,
    "qda": _qda,
    "tree": _tree,
    "knn": _knn,
    "mlp": _mlp,
    "svc-linear": _svc_linear,
    "svc-rbf": _svc_rbf,
    "multinomial": _multinomial,
    "boosting": _boosting,
}
r"""Name of a classifier to what makes it.

The first eleven are those of :cite:`kull2019`, with the parameters of the programs behind its tables:

``"logistic"``
    One logistic regression per class, C = 1, by liblinear, probabilities divided by their sum: the default of the
    scikit-learn of that time. ``"multinomial"`` is today's.
``"nbayes"``
    Gaussian naive Bayes.
``"forest"``
    Random forest of 200 trees.
``"adas"``
    AdaBoost SAMME of 200 stumps. Theirs is called SAMME in the paper, but scikit-learn's default then was SAMME.R, which
    steps by class probabilities and is no longer there. This one is the discrete SAMME, whose probabilities
    are near uniform.
``"lda"``, ``"qda"``
    Linear discriminants; quadratic ones with ``reg_param`` 0.1, where theirs have none, since covariances of less than
    full rank are refused today; they take classes with fewer rows than features as scikit-learn did then.
``"tree"``
    Decision tree of depth 5.
``"knn"``
    Three nearest neighbours.
``"mlp"``
    One hidden layer of 100 units, at most 200 epochs of Adam, converged or not.
``"svc-linear"``, ``"svc-rbf"``
    Support vector machines with C = 0.025, and with C = 1 and gamma = 2; probabilities by Platt scaling of pairs of
    classes over five folds of the training rows, as in ``SVC(probability=True)``.

Their random state is always 42; here it comes from the split, so that repeats differ in it. For :cite:`wenger2020`:
``"adas"`` and ``"forest"`` with its numbers of estimators as parameters, ``"mlp"``, and ``"boosting"``, histogram
gradient boosting of scikit-learn in the place of XGBoost.
"""


def make_classifier(spec: ClassifierSpec, seed: int, recipe_folder: Path) -> Any:
    """Return a classifier that is not trained yet; what is random in it comes from the seed.

    >>> make_classifier(ClassifierSpec("5-NN", "knn", {"n_neighbors": 5}), 0, Path("."))
    KNeighborsClassifier()
    """
    if is_reference(spec.estimator):
        factory = load_object(spec.estimator, recipe_folder)
    else:
        factory = _known(spec.estimator)
    parameters = dict(spec.parameters)
    try:
        classifier = factory(**parameters)
        if isinstance(classifier, BaseEstimator) and "random_state" not in parameters:
            known = classifier.get_params()
            classifier.set_params(
                **{name: seed for name in known if name.rpartition("__")[2] == "random_state"}
            )
    except (TypeError, ValueError) as error:
        text = " ".join(str(error).split()).removesuffix(".")
        raise RecipeError(f"classifier {spec.name!r}: {spec.estimator} cannot be made: {text}.") from error
    return classifier


def check_classifier(spec: ClassifierSpec, recipe_folder: Path) -> None:
    """Refuse a classifier that cannot be made, or that gives no probabilities."""
    classifier = make_classifier(spec, 0, recipe_folder)
    if not hasattr(classifier, "fit") or not hasattr(classifier, "predict_proba"):
        raise RecipeError(f"classifier {spec.name!r}: {spec.estimator} has no fit and predict_proba.")


def trained(
    spec: ClassifierSpec,
    seed: int,
    recipe_folder: Path,
    features: NDArray[np.float64],
    labels: NDArray[np.intp],
) -> Any:
    """Return a classifier that is trained on some rows; what scikit-learn warns of on the way is of no account.

    Networks that stop before they converge and features that are collinear are part of the published experiments.
    """
    classifier = make_classifier(spec, seed, recipe_folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return classifier.fit(features, labels)


def scores_of(
    spec: ClassifierSpec, classifier: Any, features: NDArray[np.float64], n_classes: int
) -> Predictions:
    """Return the probabilities of a trained classifier, with a column for every class of the data set.

    A class that had no row in training has the probability zero.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = np.asarray(classifier.predict_proba(features))
    columns = np.asarray(classifier.classes_)
    if given.shape != (len(features), len(columns)):
        raise StudyError(
            f"classifier {spec.name!r} gave probabilities of shape {given.shape} for {len(features)} rows and "
            f"{len(columns)} classes."
        )
    scores = np.zeros((len(features), n_classes), dtype=given.dtype)
    scores[:, columns.astype(np.intp)] = given
    try:
        return Predictions.from_probabilities(scores)
    except PredictionError as error:
        raise StudyError(f"classifier {spec.name!r}: {error}") from error


def _known(name: str) -> Callable[..., Any]:
    try:
        return CLASSIFIERS[name]
    except KeyError:
        near = get_close_matches(name, CLASSIFIERS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(CLASSIFIERS)}."
        raise RecipeError(f"there is no classifier {name!r}; {hint}") from None
