"""Base classifiers by name: those of the published experiments, and any estimator of scikit-learn."""

import warnings
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.svm import SVC

from calibrant.arrays import Float64Array
from calibrant.calibrators import PlattScaling
from calibrant.errors import MissingExtraError, PredictionError, RecipeError, StudyError
from calibrant.notices import held_back
from calibrant.numerics.simplex import softmax
from calibrant.predictions import Predictions
from calibrant.studies.own_code import is_reference, load_object, one_line
from calibrant.studies.schema import close_to
from calibrant.studies.specifications import ClassifierSpec

__all__ = [
    "CLASSIFIERS",
    "EncodedLabels",
    "PairwiseSVC",
    "SmallClassQDA",
    "check_classifier",
    "coupled",
    "make_classifier",
    "scores_of",
    "trained",
]


class SmallClassQDA(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Quadratic discriminant analysis that accepts classes with fewer rows than features, as scikit-learn did formerly.

    The covariance of a class is :math:`(1 - r) S + r I` in the span of its singular vectors; directions outside the span are
    ignored. If every class has more rows than features, this is
    :class:`sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis` with a divisor of n - 1 instead of n.

    Parameters
    ----------
    reg_param : float
        Regularisation strength r, from 0 to 1.

    Examples
    --------
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [0.5, 2.0], [5.0, 5.0], [6.0, 5.0], [5.0, 7.0]], [0, 0, 0, 1, 1, 1]
    >>> SmallClassQDA(reg_param=0.1).fit(X, y).predict([[0.5, 0.5], [5.5, 5.5]])
    array([0, 1])
    """

    def __init__(self, reg_param: float = 0.0) -> None:
        self.reg_param = reg_param

    def fit(self, X: Any, y: Any) -> Self:
        """Train on features (n, d) and labels (n,)."""
        features, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
        self.classes_, counts = np.unique(labels, return_counts=True)
        self.log_priors_ = np.log(counts / len(labels))
        self.means_, self.scalings_, self.rotations_ = [], [], []
        for label, count in zip(self.classes_, counts, strict=True):
            rows = features[labels == label]
            mean = rows.mean(axis=0)
            _, sizes, directions = np.linalg.svd(rows - mean, full_matrices=False)
            variances = sizes**2 / max(count - 1, 1)
            # A direction with zero variance would dominate all others.
            variances = np.maximum(
                (1 - self.reg_param) * variances + self.reg_param, np.finfo(np.float64).tiny
            )
            self.means_.append(mean)
            self.scalings_.append(variances)
            self.rotations_.append(directions.T)
        return self

    def predict_proba(self, X: Any) -> Float64Array:
        """Return probabilities, (n, K)."""
        features = np.asarray(X, dtype=np.float64)
        scores = [
            log_prior
            - 0.5 * ((((features - mean) @ rotation) ** 2 / variances).sum(axis=1) + np.log(variances).sum())
            for log_prior, mean, rotation, variances in zip(
                self.log_priors_, self.means_, self.rotations_, self.scalings_, strict=True
            )
        ]
        return np.asarray(softmax(np.column_stack(scores)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class, (n,)."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels


N_FOLDS = 5
SMALLEST = 1e-7  # as in libsvm, so that no pair decides alone


class PairwiseSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Support vector classifier with the probabilities of libsvm: Platt scaling per pair of classes, then coupling.

    This replaces ``SVC(probability=True)``, which scikit-learn 1.11 removes. Out-of-fold margins of each pair of classes, from
    five folds, are mapped to probabilities by Platt scaling with smoothed targets. The pairs are coupled by the second
    method of Wu, Lin and Weng (2004), with its linear equations solved directly.

    Parameters
    ----------
    C, kernel, gamma
        See :class:`sklearn.svm.SVC`.
    random_state : int
        Seed of the folds.

    Examples
    --------
    >>> X, y = [[0.0], [0.2], [0.4], [0.6], [0.8], [1.0]] * 5, [0, 0, 0, 1, 1, 1] * 5
    >>> PairwiseSVC(kernel="linear").fit(X, y).predict_proba([[0.0], [1.0]]).argmax(axis=1)
    array([0, 1])
    """

    def __init__(
        self, C: float = 1.0, kernel: str = "rbf", gamma: Any = "scale", random_state: int = 0
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train on features (n, d) and labels (n,)."""
        features, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        generator = np.random.default_rng(self.random_state)
        gamma = self._gamma(features)
        self.machine_ = SVC(C=self.C, kernel=self.kernel, gamma=gamma, decision_function_shape="ovo").fit(
            features, numbers
        )
        self.sigmoids_ = np.array(
            [
                self._sigmoid(features, numbers, pair, gamma, generator)
                for pair in combinations(range(len(self.classes_)), 2)
            ]
        )
        return self

    def predict_proba(self, X: Any) -> Float64Array:
        """Return probabilities, (n, K)."""
        margins = self.machine_.decision_function(np.asarray(X, dtype=np.float64))
        if margins.ndim == 1:  # For two classes scikit-learn flips the sign.
            margins = -margins[:, np.newaxis]
        slopes, intercepts = self.sigmoids_.T
        first = np.clip(expit(slopes * margins + intercepts), SMALLEST, 1 - SMALLEST)
        return coupled(first, len(self.classes_))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class, (n,)."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def _gamma(self, features: Float64Array) -> Any:
        """Return gamma as a number; folds of a pair use that of all rows."""
        if self.gamma != "scale":
            return self.gamma
        variance = float(features.var())
        return 1 / (features.shape[1] * variance) if variance > 0 else 1.0

    def _sigmoid(
        self,
        features: Float64Array,
        numbers: NDArray[np.intp],
        pair: tuple[int, int],
        gamma: Any,
        generator: np.random.Generator,
    ) -> tuple[float, float]:
        """Return slope and intercept of the log-odds of the first class of a pair given the margin."""
        rows = np.flatnonzero(np.isin(numbers, pair))
        is_first = numbers[rows] == pair[0]
        fold_of = generator.permutation(np.arange(len(rows)) % N_FOLDS)
        margins = np.zeros(len(rows))
        for fold in range(N_FOLDS):
            held_out, rest = fold_of == fold, fold_of != fold
            if not held_out.any() or not rest.any():
                continue
            if is_first[rest].all() or not is_first[rest].any():
                margins[held_out] = 1.0 if is_first[rest].all() else -1.0
                continue
            machine = SVC(C=self.C, kernel=self.kernel, gamma=gamma)
            machine.fit(features[rows[rest]], is_first[rest])
            margins[held_out] = machine.decision_function(features[rows[held_out]])
        with held_back():  # Margins can separate the classes; smoothed targets keep the fit finite.
            fitted = PlattScaling(smoothed_targets=True).fit(
                Predictions.from_logits(margins), is_first.astype(np.intp)
            )
        return fitted.slope_, fitted.intercept_


def coupled(first: Float64Array, n_classes: int) -> Float64Array:
    r"""Return class probabilities, (n, K), from those of the first class of each pair, (n, K(K-1)/2).

    They minimise :math:`\sum_i \sum_{j \ne i} (r_{ji} p_i - r_{ij} p_j)^2` among vectors that sum to one.

    >>> coupled(np.array([[0.75]]), 2)
    array([[0.75, 0.25]])
    """
    n_rows = len(first)
    ratios = np.zeros((n_rows, n_classes, n_classes))
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        ratios[:, i, j] = first[:, column]
        ratios[:, j, i] = 1 - first[:, column]
    others = ratios.transpose(0, 2, 1)
    system = np.zeros((n_rows, n_classes + 1, n_classes + 1))
    system[:, :n_classes, :n_classes] = -ratios * others
    diagonal = np.arange(n_classes)
    system[:, diagonal, diagonal] = (others**2).sum(axis=2)
    system[:, :n_classes, n_classes] = system[:, n_classes, :n_classes] = 1
    right = np.zeros((n_rows, n_classes + 1, 1))
    right[:, n_classes] = 1
    solved = np.linalg.solve(system, right)[:, :n_classes, 0]
    probabilities = np.maximum(solved, 0)
    total: Float64Array = probabilities.sum(axis=1, keepdims=True)
    return np.asarray(probabilities / total)


def _logistic(**parameters: Any) -> Any:
    """Return one-vs-rest logistic regression, scikit-learn's default when the tables were made."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    return OneVsRestClassifier(LogisticRegression(**{"solver": "liblinear", **parameters}))


class EncodedLabels(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that is trained on the numbers 0, 1, ... of the classes that occur, as XGBoost requires.

    Parameters
    ----------
    estimator : classifier
        Untrained; it is cloned.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = EncodedLabels(DecisionTreeClassifier()).fit([[0.0], [1.0]], [2, 5])
    >>> tree.classes_, tree.predict([[1.0]])
    (array([2, 5]), array([5]))
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> Self:
        """Train on features (n, d) and labels (n,)."""
        self.classes_, numbers = np.unique(y, return_inverse=True)
        self.estimator_ = clone(self.estimator).fit(X, numbers)
        return self

    def predict_proba(self, X: Any) -> Float64Array:
        """Return probabilities of the classes that occur, (n, K)."""
        return np.asarray(self.estimator_.predict_proba(X), dtype=np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class, (n,)."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels


def _xgboost(**parameters: Any) -> EncodedLabels:
    """Return XGBoost in one thread, with the defaults of 2019, when the tables were made."""
    try:
        from xgboost import XGBClassifier
    except ImportError as error:
        raise MissingExtraError("xgboost", "xgboost") from error
    defaults = {"n_estimators": 100, "max_depth": 3, "learning_rate": 0.1, "random_state": None, "n_jobs": 1}
    return EncodedLabels(XGBClassifier(**{**defaults, **parameters}))


def _estimator(reference: str, **defaults: Any) -> Callable[..., Any]:
    """Return a constructor with defaults, whose module is imported at the first call."""
    return lambda **parameters: load_object(reference, Path())(**{**defaults, **parameters})


CLASSIFIERS: dict[str, Callable[..., Any]] = {
    "logistic": _logistic,
    "nbayes": _estimator("sklearn.naive_bayes:GaussianNB"),
    "forest": _estimator("sklearn.ensemble:RandomForestClassifier", n_estimators=200),
    "adas": _estimator("sklearn.ensemble:AdaBoostClassifier", n_estimators=200),
    "lda": _estimator("sklearn.discriminant_analysis:LinearDiscriminantAnalysis"),
    "qda": partial(SmallClassQDA, reg_param=0.1),
    "tree": _estimator("sklearn.tree:DecisionTreeClassifier", max_depth=5),
    "knn": _estimator("sklearn.neighbors:KNeighborsClassifier", n_neighbors=3),
    "mlp": _estimator("sklearn.neural_network:MLPClassifier"),
    "svc-linear": partial(PairwiseSVC, kernel="linear", C=0.025),
    "svc-rbf": partial(PairwiseSVC, gamma=2.0, C=1.0),
    "multinomial": _estimator("sklearn.linear_model:LogisticRegression", max_iter=1000),
    "boosting": _estimator("sklearn.ensemble:HistGradientBoostingClassifier"),
    "xgboost": _xgboost,
}
r"""Name of a classifier -> its constructor.

The first eleven are those of :cite:`kull2019`, with the parameters of the programs behind its tables:

``"logistic"``
    One-vs-rest logistic regression, C = 1, by liblinear, with probabilities divided by their sum: the default of
    scikit-learn at that time. ``"multinomial"`` is today's default.
``"nbayes"``
    Gaussian naive Bayes.
``"forest"``
    Random forest of 200 trees.
``"adas"``
    AdaBoost (SAMME) with 200 stumps. The paper says SAMME, but scikit-learn's default then was SAMME.R, which boosts by
    class probabilities and has been removed. This is the discrete SAMME, whose probabilities are nearly uniform.
``"lda"``, ``"qda"``
    Linear and quadratic discriminant analysis; the latter with ``reg_param`` 0.1 where the paper has none, because
    singular covariances are refused today. It accepts classes with fewer rows than features, as scikit-learn did then.
``"tree"``
    Decision tree of depth 5.
``"knn"``
    Three nearest neighbours.
``"mlp"``
    One hidden layer of 100 units, at most 200 epochs of Adam, whether it converges or not.
``"svc-linear"``, ``"svc-rbf"``
    Support vector machines with C = 0.025, and with C = 1 and gamma = 2; probabilities by Platt scaling of pairs of
    classes over five folds of the training set, as in ``SVC(probability=True)``.

The paper's random state is always 42; here it depends on the split, so that repeats differ. For :cite:`wenger2020`:
``"adas"`` and ``"forest"`` with its numbers of estimators as parameters, ``"mlp"``, and ``"boosting"``, scikit-learn's
histogram gradient boosting, or ``"xgboost"``, XGBoost itself, which needs the extra ``xgboost``. Its defaults are those of
2019: 100 trees of depth 3 with a learning rate of 0.1.
"""


def make_classifier(spec: ClassifierSpec, seed: int, recipe_folder: Path) -> Any:
    """Create an untrained classifier; its random state is the seed.

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
        raise RecipeError(
            f"classifier {spec.name!r}: {spec.estimator} cannot be created: {one_line(error)}."
        ) from error
    return classifier


def check_classifier(spec: ClassifierSpec, recipe_folder: Path) -> None:
    """Refuse a classifier that cannot be created, or that has no ``predict_proba``."""
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
    """Return a classifier trained on some rows, without scikit-learn's warnings.

    Networks that do not converge and collinear features are part of the published experiments.
    """
    classifier = make_classifier(spec, seed, recipe_folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return classifier.fit(features, labels)


def scores_of(
    spec: ClassifierSpec, classifier: Any, features: NDArray[np.float64], n_classes: int
) -> Predictions:
    """Return the probabilities of a trained classifier, with a column for every class of the data set.

    A class without training rows has probability zero.
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
        hint = close_to(name, CLASSIFIERS, brief=True)
        raise RecipeError(f"there is no classifier {name!r}; {hint}") from None
