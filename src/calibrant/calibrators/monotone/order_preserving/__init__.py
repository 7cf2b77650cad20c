"""Intra-order-preserving calibration: networks and curves that preserve the order of the classes in every row."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from calibrant.arrays import Vector
from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.inner_folds import choose_by_folds, inner_folds
from calibrant.calibrators.monotone.order_preserving.gap_networks import (
    GapFamily,
    GapNetwork,
    InputScale,
    fit_gap_network,
)
from calibrant.calibrators.monotone.order_preserving.increasing_network import (
    IncreasingNetwork,
    fit_increasing_network,
)
from calibrant.calibrators.monotone.order_preserving.tempered_scores import (
    Inputs,
    TemperedScores,
    traced_tempered_scores,
)
from calibrant.calibrators.structured.shared_segments import SharedSegments
from calibrant.calibrators.structured.structured_map import StructuredMap, structured_penalty
from calibrant.errors import ParameterError
from calibrant.fit_cost import FitCost
from calibrant.graph import TracedPredictions, Value
from calibrant.graph.apply import evaluated
from calibrant.graph.curves import Piecewise
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.dense_network import Activation
from calibrant.numerics.linear_segments import LinearSegments
from calibrant.objective import ArrayRows, Family
from calibrant.objective.family import Features
from calibrant.options import check_choice, check_not_negative, check_whole, is_whole, random_source
from calibrant.predictions import Predictions
from calibrant.solvers import Solution, Status, bounded_newton
from calibrant.space import Space

__all__ = ["IntraOrderPreserving"]


@dataclass(frozen=True, eq=False)
class SharedMap:
    r"""Calibrated logits :math:`\varphi(x_k)`, with one increasing function :math:`\varphi` for all classes.

    Attributes
    ----------
    inverse_temperature : float
        Factor of the logits before the map.
    knots : ndarray of shape (m - 1,)
        Knots, on the scale of
        :func:`~calibrant.calibrators.monotone.order_preserving.tempered_scores.tempered_scores`.
    slopes : ndarray of shape (m,)
        Slopes between the knots, and beyond the outer ones; all one for temperature scaling.
    inputs : {"log-probabilities", "logits"}
        What :math:`\varphi` is a function of.
    solution : Solution
        How the fit went; its ``theta`` are the slopes.
    """

    inverse_temperature: float
    knots: Vector
    slopes: Vector
    inputs: Inputs
    solution: Solution

    def traced(self, given: TracedPredictions) -> Value:
        """Return calibrated logits, in the order of the scores up to rounding."""
        scores = traced_tempered_scores(given, self.inverse_temperature, self.inputs)
        return scores.then(Piecewise.sloped(self.knots, self.slopes)).narrowed()


def fit_shared_map(
    data: LabelledPredictions,
    n_segments: int = 6,
    slope_penalty: float = 1.0,
    difference_penalty: float = 1.0,
    inputs: Inputs = "log-probabilities",
) -> SharedMap:
    r"""Fit the slopes of one increasing, piecewise-linear function to the log-loss of calibration rows.

    .. math:: \min_{s \ge \varepsilon} \; \frac1n \Big[ \sum_i \ell\big(\varphi_s(x_i), y_i\big)
              + \lambda \sum_j (s_j - 1)^2 + \mu \sum_j (s_{j+1} - s_j)^2 \Big], \qquad
              x_{ik} = \log \mathrm{softmax}(z_i / T)_k

    Knots are quantiles of all scores weighted by p (1 - p), so all segments have equal information. The problem is convex
    and takes a few Newton steps from slopes of one, which are temperature scaling. The training loss never exceeds that of
    temperature scaling or of the uncalibrated predictions.

    Parameters
    ----------
    data : LabelledPredictions
        Calibration rows.
    n_segments : int
        Number of slopes, m; fewer if there are too few distinct scores for m - 1 knots.
    slope_penalty : float
        Regularisation strength :math:`\lambda` of the deviation from temperature scaling, in rows.
    difference_penalty : float
        Regularisation strength :math:`\mu` of the differences between adjacent slopes, in rows.
    inputs : {"log-probabilities", "logits"}
        Whether x are log-probabilities, or raw logits divided by the temperature.

    Notes
    -----
    Costs O(n K m^2) time per step, about six of them, and O(n K) memory.

    Examples
    --------
    Confident rows are wrong too often and others are calibrated; one temperature cannot correct both.

    >>> p = [[0.98, 0.01, 0.01]] * 1000 + [[0.5, 0.3, 0.2]] * 1000
    >>> y = ([0] * 8 + [1, 2]) * 100 + ([0] * 5 + [1] * 3 + [2] * 2) * 100
    >>> data = LabelledPredictions.parse(p, y)
    >>> fitted = fit_shared_map(data)
    >>> Predictions.from_logits(evaluated(fitted.traced, data.predictions.take([0, 1000]))).probabilities.round(2)
    array([[0.8 , 0.1 , 0.1 ], [0.48, 0.3 , 0.22]])
    """
    data = data.with_counting_weights()
    rows = TemperedScores.of(data, inputs)
    beta = rows.inverse_temperature
    segments = LinearSegments(rows.quantiles(n_segments))
    logit_map = StructuredMap(data.n_classes, SharedSegments(segments, None), None)
    family = Family(
        Features(lambda given: traced_tempered_scores(given, beta, inputs)),
        logit_map,
        penalty_in_rows=structured_penalty(logit_map, 0.0, slope_penalty, difference_penalty),
    )
    objective = family.objective(ArrayRows(rows.scores, rows.labels, rows.weights))
    with objective.open():
        found = bounded_newton(objective.second_order, logit_map.identity(), logit_map.lower())
    solution = replace(
        found,
        loss=found.value - objective.penalty.value(found.theta),
        identity_loss=rows.identity_loss,
    )
    if not solution.loss <= rows.identity_loss:
        # Only rounding, or scores too large for their float type, can lead here. Slopes of one are at least as good.
        beta = 1.0
        solution = replace(
            solution,
            theta=np.ones(segments.n_segments),
            value=rows.identity_loss,
            loss=rows.identity_loss,
            status=Status.IDENTITY,
        )
    return SharedMap(beta, segments.knots, solution.theta, inputs, solution)


class OrderKeeping(Calibrator):
    """Base of methods with an increasing map; abstract.

    An increasing map is order-preserving, but rounding may turn small differences into ties or, in float32, reverse them.
    Such rows are repaired by single rounding units, in logits and in probabilities, so that the order of the classes,
    ties included, is exactly that of the input.

    The traits of such a method declare shared parameters, so classes without calibration rows are mapped like all others.
    """

    @abstractmethod
    def _increasing(self, given: TracedPredictions) -> Value:
        """Return calibrated logits in the order of the scores but for rounding."""

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        return given.with_logits(self._increasing(given), "order")


Map = GapNetwork | IncreasingNetwork | SharedMap

HIDDEN = {"full": (10,), "invariant": (10,), "diagonal": (2, 2)}
RESTARTS = {"full": 1, "invariant": 1, "diagonal": 5}

# Candidates for the weight decay, times the number of rows, the simplest (temperature scaling) first.
ROWS_OF_DECAY: dict[str, list[float]] = {
    "full": [np.inf, 100.0, 30.0, 10.0, 3.0, 1.0],
    "invariant": [np.inf, 100.0, 30.0, 10.0, 3.0, 1.0],
    "diagonal": [np.inf, 30.0, 3.0, 0.3],
}

# Penalty of a piecewise function with its few slopes, in rows.
ONE_ROW = 1.0

# Limits of rows and of numbers in the sample for a comparison of candidates.
CHOICE_ROWS, CHOICE_ENTRIES = 1000, 300_000


class Effort(NamedTuple):
    """Limits of a search: least decrease of the loss in a step, and numbers of steps and starts."""

    tolerance: float
    max_iterations: int = 1000
    restarts: int = 10**9


# Held-out losses differ in the fourth digit at best, so further digits of the loss are within sampling error.
COMPARED, CHOSEN, GIVEN = Effort(1e-6, max_iterations=60, restarts=2), Effort(1e-7), Effort(1e-9)


class IntraOrderPreserving(OrderKeeping):
    r"""Intra-order-preserving calibration: rescale the gaps between the sorted logits of a row by positive factors.

    With :math:`x_{(1)} \ge \dots \ge x_{(K)}` the sorted logits of a row, :cite:`rahimi2020`

    .. math:: f_{(j)}(x) = \sum_{l = j}^{K - 1} (x_{(l)} - x_{(l + 1)}) \, w_l(x), \qquad w_l(x) > 0, \qquad
              \hat q = \mathrm{softmax}(f(x)) .

    Every continuous map that preserves the order of a row, ties included, has this form, up to a constant that cancels in the
    softmax. The three kinds differ in the inputs of the factors w.

    Parameters
    ----------
    kind : {"diagonal", "invariant", "full"}, default="diagonal"
        ``"diagonal"``: one increasing function of one variable, :math:`f_k(x) = \varphi(x_k)`, for all
        classes; the smallest family.
        ``"invariant"``: a network of the *sorted* logits, equivariant under permutations of the classes.
        ``"full"``: a network of all K logits in class order gives the K - 1 factors, so that classes may differ.
    form : {"piecewise", "network"}, default="piecewise"
        Form of the diagonal function: piecewise linear, a convex problem that takes milliseconds, or the integral of a
        positive network as in the paper. No effect for the other kinds.
    hidden : tuple of int, optional
        Units of each hidden layer; by default ``(10,)``, and ``(2, 2)`` for the network of the diagonal kind.
        ``()`` is a linear map.
    activation : {"elu", "relu", "tanh"}, default="elu"
        Activation function of the full and invariant kinds; ``"relu"`` is the paper's.
    weight_decay : float or "auto", default="auto"
        Regularisation strength of the sum of squares of all network parameters, added to the mean log-loss; zero parameters
        are temperature scaling. ``"auto"`` cross-validates a default set, temperature scaling included, and selects the
        largest strength within one standard error of the best. For piecewise functions, the strength of squared deviations
        of slopes from temperature scaling and of squared differences of adjacent slopes; there ``"auto"`` is 1/n.
    cv : int, default=5
        Folds of the cross-validation.
    restarts : int, optional
        Number of random starts, of which the best is kept; by default 1, and 5 for the network of the diagonal kind.
    inputs : {"log-probabilities", "logits"}, default="log-probabilities"
        Inputs of networks and functions, in both cases at the best temperature. Log-probabilities are invariant to a
        constant added to a row of logits; raw logits are not, and are the paper's inputs.
    random_state : int, Generator or None, default=0
        Source of the initial random weights of hidden units.

    Attributes
    ----------
    inverse_temperature_ : float
        Best inverse temperature :math:`1/T`, by which logits are multiplied first; 1 if it diverges.
    weight_decay_ : float
        The selected strength; infinite for temperature scaling.
    weight_decays_, held_out_losses_ : ndarray of shape (C,)
        Candidates of the cross-validation and their mean held-out log-loss; empty without one. The first candidate with a
        clearly higher loss is the last.
    sees_classes_ : bool
        Full and invariant kinds: whether the network's inputs are in class order, or sorted.
    input_means_, input_spreads_ : ndarray of shape (K,)
        Full and invariant kinds: mean and standard deviation by which inputs are standardised.
    knots_, slopes_ : ndarray
        Diagonal kind: knots of :math:`\varphi` and its slopes, one before, between and after the knots if it is piecewise
        linear; for the integral of a network, nodes and the slopes at them.
    solution_ : Solution
        Result of the solver; for networks ``theta`` holds the weights and biases.

    Notes
    -----
    *Order.* The order of the classes in every row, ties included, is exactly that of the input, in logits and in
    probabilities, and in float32 too; rounding errors are repaired by single rounding units. So rankings of the classes and
    top-k accuracies do not change.

    *Fit.* The last layer of a network starts at zero, which is temperature scaling, and a quasi-Newton method fits all rows;
    random starts end at nearly the same penalised loss. Temperature scaling is always a candidate, so neither it nor the
    uncalibrated predictions have a lower training loss. If all rows are correct and the temperature diverges, the identity
    replaces it. The factors are :math:`w = \frac12 (m + \sqrt{m^2 + 4}) / T` for outputs m of the network: positive like
    the softplus of the paper, at a fraction of its cost, and :math:`1/T` for m = 0. Standardised inputs are clipped at
    three standard deviations, so factors are constant beyond them.

    *Which kind.* The full kind has about 2 K h parameters for h units and can correct class-specific errors without a change
    of the accuracy; with many classes it needs a large calibration set. The invariant kind has as many parameters but
    pools the classes. The diagonal kind is the safest on a small calibration set. Select by held-out loss, not on the test
    set. If a class has no calibration rows, the full kind gets sorted logits like the invariant one, since it would learn
    that such a class is always wrong.

    *Programs.* The authors' program trains by Adam with ReLU units, up to two layers of 150, without standardisation. For
    each metric separately it keeps the checkpoint that is best on held-out rows, and averages the logits of five folds;
    later users selected the checkpoint on the test set. Here one network is fitted to all rows. The offset that the
    program adds to the diagonal function cancels in the softmax.

    *Cost.* O(nKh) time per pass, and tens to hundreds of passes per fit. Cross-validation takes five times ``cv``
    additional fits, on several threads, and uses a sample of a large calibration set. Memory is that of several n by K
    matrices in float64. Prediction costs two sorts of every row and one pass, in blocks.

    Examples
    --------
    Confident rows are wrong too often and others are calibrated; a single temperature cannot correct both.

    >>> p = [[0.98, 0.01, 0.01]] * 1000 + [[0.5, 0.3, 0.2]] * 1000
    >>> y = ([0] * 8 + [1, 2]) * 100 + ([0] * 5 + [1] * 3 + [2] * 2) * 100
    >>> fitted = IntraOrderPreserving("invariant", weight_decay=1e-5).fit(p, y)
    >>> fitted.predict_proba([[0.98, 0.01, 0.01], [0.2, 0.3, 0.5]]).round(2)
    array([[0.8, 0.1, 0.1], [0.2, 0.3, 0.5]])
    """

    fit_cost: ClassVar[FitCost | None] = FitCost(0.28)
    structure: ClassVar[tuple[str, ...]] = ("kind", "inputs", "form")
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {
        "iop": {"kind": "full"},
        "iop-diagonal": {"kind": "diagonal"},
        "iop-invariant": {"kind": "invariant"},
    }

    inverse_temperature_: float
    weight_decay_: float
    weight_decays_: Vector
    held_out_losses_: Vector
    solution_: Solution

    def __init__(
        self,
        kind: Literal["diagonal", "invariant", "full"] = "diagonal",
        form: Literal["piecewise", "network"] = "piecewise",
        hidden: tuple[int, ...] | None = None,
        activation: Activation = "elu",
        weight_decay: float | Literal["auto"] = "auto",
        cv: int = 5,
        restarts: int | None = None,
        inputs: Literal["log-probabilities", "logits"] = "log-probabilities",
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.kind = kind
        self.form = form
        self.hidden = hidden
        self.activation = activation
        self.weight_decay = weight_decay
        self.cv = cv
        self.restarts = restarts
        self.inputs = inputs
        self.random_state = random_state

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """Equivariance follows from the kind, dependence on raw logits from the inputs."""
        return Traits(
            keeps_argmax=True,
            contains_identity=True,
            commutes_with_permutations=self._setting("kind") != "full",
            uses_raw_logits=self._setting("inputs") == "logits",
            shares_parameters=True,
        )

    def _fit(self, data: LabelledPredictions) -> None:
        self._check_parameters()
        seed = int(random_source(self.random_state).integers(2**32))
        data = data.with_counting_weights()
        self.weight_decays_ = self.held_out_losses_ = np.empty(0)
        if self._setting("kind") != "diagonal":
            # A network with class-specific inputs would learn that a class without rows is always wrong.
            self.sees_classes_ = self._setting("kind") == "full" and bool(data.class_weights.all())
        self.weight_decay_ = (
            self._chosen_weight_decay(data, seed) if self.weight_decay == "auto" else float(self.weight_decay)
        )
        effort = CHOSEN if self.weight_decay == "auto" else GIVEN
        self._set_map(self._fitted_map(data, self.weight_decay_, seed, effort))
        self.solution_.warn_unless_converged("IntraOrderPreserving")

    def _check_parameters(self) -> None:
        check_choice("kind", self._setting("kind"), ("diagonal", "invariant", "full"))
        check_choice("form", self.form, ("piecewise", "network"))
        check_choice("activation", self.activation, ("elu", "relu", "tanh"))
        check_choice("inputs", self._setting("inputs"), ("log-probabilities", "logits"))
        if not isinstance(self.weight_decay, str) or self.weight_decay != "auto":
            check_not_negative("weight_decay", self.weight_decay, 'or "auto"')
        check_whole("cv", self.cv, least=2)
        if self.restarts is not None:
            check_whole("restarts", self.restarts)
        widths = self.hidden
        if widths is not None and not (
            isinstance(widths, tuple | list) and all(is_whole(width, 1) for width in widths)
        ):
            raise ParameterError(f"hidden must be a tuple of whole numbers such as (10,), not {widths!r}.")

    def _chosen_weight_decay(self, data: LabelledPredictions, seed: int) -> float:
        """Return the weight decay selected by cross-validation; the penalty of one row for a convex fit."""
        if self._is_piecewise:
            return ONE_ROW / data.total_weight

        def fitted(rows: LabelledPredictions, rows_of_decay: float) -> Callable[[Predictions], Predictions]:
            return partial(_mapped, self._fitted_map(rows, rows_of_decay / rows.total_weight, seed, COMPARED))

        enough = max(CHOICE_ROWS, CHOICE_ENTRIES // data.n_classes)
        judged = data
        if data.n_rows > enough:
            part = inner_folds(data, -(-data.n_rows // enough))[0]
            judged = data.take(part.test_rows, part.test_weights)
        choice = choose_by_folds(judged, ROWS_OF_DECAY[self._setting("kind")], fitted, n_folds=self.cv)
        self.weight_decays_ = np.array(choice.candidates) / data.total_weight
        self.held_out_losses_ = choice.losses
        return choice.best / data.total_weight

    def _fitted_map(self, data: LabelledPredictions, weight_decay: float, seed: int, effort: Effort) -> Map:
        """Return the map for one weight decay, infinite for temperature scaling."""
        if self._is_piecewise:
            penalty = weight_decay * data.total_weight  # counted in rows there
            return fit_shared_map(
                data, slope_penalty=penalty, difference_penalty=penalty, inputs=self._setting("inputs")
            )
        restarts = min(
            RESTARTS[self._setting("kind")] if self.restarts is None else self.restarts, effort.restarts
        )
        if self._setting("kind") == "diagonal":
            # Without a start the network is zero, which is temperature scaling.
            starts, finite = (restarts, weight_decay) if np.isfinite(weight_decay) else (0, 0.0)
            return fit_increasing_network(
                data, self._hidden, finite, starts, seed, inputs=self._setting("inputs")
            )
        return fit_gap_network(
            data,
            self._family,
            weight_decay,
            seed=seed,
            restarts=restarts,
            tolerance=effort.tolerance,
            max_iterations=effort.max_iterations,
        )

    @property
    def _is_piecewise(self) -> bool:
        return bool(self._setting("kind") == "diagonal" and self._setting("form") == "piecewise")

    @property
    def _hidden(self) -> tuple[int, ...]:
        return HIDDEN[self._setting("kind")] if self.hidden is None else tuple(self.hidden)

    @property
    def _family(self) -> GapFamily:
        sees: Literal["classes", "places"] = "classes" if self.sees_classes_ else "places"
        return GapFamily(sees, self._hidden, self.activation, self._setting("inputs"))

    def _set_map(self, fitted: Map) -> None:
        """Set the fitted attributes from a map."""
        self.inverse_temperature_ = fitted.inverse_temperature
        self.solution_ = fitted.solution
        if isinstance(fitted, GapNetwork):
            scale = fitted.scale
            self.input_means_, self.input_spreads_ = scale.means, scale.spreads
        elif isinstance(fitted, SharedMap):
            self.knots_, self.slopes_ = fitted.knots, fitted.slopes
        else:
            self.knots_, self.slopes_ = fitted.nodes, fitted.rates

    def _increasing(self, given: TracedPredictions) -> Value:
        return self._map().traced(given)

    def _map(self) -> Map:
        """Return the map that the fitted attributes describe."""
        if self._setting("kind") == "diagonal":
            curve = SharedMap if self._setting("form") == "piecewise" else IncreasingNetwork
            return curve(
                self.inverse_temperature_, self.knots_, self.slopes_, self._setting("inputs"), self.solution_
            )
        scale = InputScale(self.input_means_, self.input_spreads_)
        return GapNetwork(
            self._family, self.inverse_temperature_, scale, self.solution_.theta, self.solution_
        )


def _mapped(fitted: Map, predictions: Predictions) -> Predictions:
    return Predictions(evaluated(fitted.traced, predictions), Space.LOGITS, predictions.classes)
