"""Intra-order-preserving calibration: networks and curves that keep the order of the classes in every row."""

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
        What logits are multiplied by before all else.
    knots : ndarray of shape (m - 1,)
        Where the slope changes, on the scale of
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
        """Return calibrated logits, which have the order of the scores but for rounding."""
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

    Knots are quantiles of all scores, weighted by p (1 - p), so that every segment holds the same share of what rows
    can tell. The problem is convex, and its solution is found by a handful of Newton steps
    from slopes of one, which are temperature scaling; the loss of the calibration rows never ends above that of
    temperature scaling, nor above that of doing nothing.

    Parameters
    ----------
    data : LabelledPredictions
        Calibration rows.
    n_segments : int
        Number of slopes, m; fewer where scores are too few or too equal to be parted by m - 1 knots.
    slope_penalty : float
        Weight :math:`\lambda` of the distance from temperature scaling, in rows.
    difference_penalty : float
        Weight :math:`\mu` of changes from one slope to the next, in rows.
    inputs : {"log-probabilities", "logits"}
        Whether x are logarithms of probabilities, or logits as they come, divided by the temperature.

    Notes
    -----
    Costs O(n K m^2) time per step, about six of them, and O(n K) memory.

    Examples
    --------
    Sure rows are wrong too often and unsure ones are honest; one temperature cannot mend both.

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
        # Only rounding, or scores too large for their float type, can lead here: slopes of one are no worse.
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
    """What methods with an increasing map share; abstract.

    Mathematics keeps the order of a row; rounding may turn small differences into ties or, in float32, reverse them.
    Such rows are repaired by steps of one rounding unit, in logits and in probabilities, so that one class is
    above another after the map exactly where it was before, and equal where it was equal.

    Such a method says in its traits that parameters are shared by all classes, so that classes without calibration
    rows go through the map like all others.
    """

    @abstractmethod
    def _increasing(self, given: TracedPredictions) -> Value:
        """Return calibrated logits in the order of the scores but for rounding."""

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        return given.with_logits(self._increasing(given), "order")


Map = GapNetwork | IncreasingNetwork | SharedMap

HIDDEN = {"full": (10,), "invariant": (10,), "diagonal": (2, 2)}
RESTARTS = {"full": 1, "invariant": 1, "diagonal": 5}

# Candidates for the weight decay, times the number of rows, the simplest first: temperature scaling.
ROWS_OF_DECAY: dict[str, list[float]] = {
    "full": [np.inf, 100.0, 30.0, 10.0, 3.0, 1.0],
    "invariant": [np.inf, 100.0, 30.0, 10.0, 3.0, 1.0],
    "diagonal": [np.inf, 30.0, 3.0, 0.3],
}

# Penalties of a piecewise function, which has a handful of slopes only, amount to that many rows.
ONE_ROW = 1.0

# More rows than so many, or that hold so many numbers, are not needed to compare candidates.
CHOICE_ROWS, CHOICE_ENTRIES = 1000, 300_000


class Effort(NamedTuple):
    """How far a search goes: by how much a step must lower the loss, steps and starts at the most."""

    tolerance: float
    max_iterations: int = 1000
    restarts: int = 10**9


# Held-out losses differ in the fourth digit at best; after a choice by folds a network is as good as its rows long
# before its last digits.
COMPARED, CHOSEN, GIVEN = Effort(1e-6, max_iterations=60, restarts=2), Effort(1e-7), Effort(1e-9)


class IntraOrderPreserving(OrderKeeping):
    r"""Stretch the gaps between the sorted logits of a row, so that no two classes change places.

    With :math:`x_{(1)} \ge \dots \ge x_{(K)}` the sorted logits of a row, :cite:`rahimi2020`

    .. math:: f_{(j)}(x) = \sum_{l = j}^{K - 1} (x_{(l)} - x_{(l + 1)}) \, w_l(x), \qquad w_l(x) > 0, \qquad
              \hat q = \mathrm{softmax}(f(x)) .

    Every continuous map that keeps the order of a row, ties included, is such a sum of terms that are positive where
    the gaps are, up to what the softmax removes. The three kinds differ in what the stretching factors w depend on.

    Parameters
    ----------
    kind : {"diagonal", "invariant", "full"}, default="diagonal"
        ``"diagonal"``: one increasing function of one variable, :math:`f_k(x) = \varphi(x_k)`, for all
        classes; the smallest family.
        ``"invariant"``: a network of the *sorted* logits, so that it does not matter which class is which.
        ``"full"``: a network of all K logits gives the K - 1 factors, so that classes may differ.
    form : {"piecewise", "network"}, default="piecewise"
        How the function of the diagonal kind is made: linear between a few knots, which makes the fit a convex
        problem that takes milliseconds, or as the integral of a positive network, which is the paper's. No effect for
        the other kinds.
    hidden : tuple of int, optional
        Units of each hidden layer; by default ``(10,)``, and ``(2, 2)`` for the network of the diagonal kind.
        ``()`` is a linear map.
    activation : {"elu", "relu", "tanh"}, default="elu"
        What the hidden units of the full and invariant kinds compute; ``"relu"`` is the paper's.
    weight_decay : float or "auto", default="auto"
        Price of the sum of squares of all parameters of a network, next to the mean log-loss. All of them zero is
        temperature scaling. ``"auto"`` compares some numbers by cross-validation within the calibration rows,
        temperature scaling among them, and takes the largest that is not worse than the best by more than a standard
        error. For piecewise functions the price of squared deviations of slopes from those of temperature scaling,
        and of squared changes from slope to slope; there ``"auto"`` is 1/n.
    cv : int, default=5
        Folds of that choice.
    restarts : int, optional
        From how many random networks the fit starts, the lowest being kept; by default 1, and 5 for the network of
        the diagonal kind.
    inputs : {"log-probabilities", "logits"}, default="log-probabilities"
        What networks and functions see, in both cases at the best temperature. Log-probabilities do not
        change if a constant is added to a row of logits; raw logits do, and are what the paper's see.
    random_state : int, Generator or None, default=0
        Where the random weights come from that hidden units start with.

    Attributes
    ----------
    inverse_temperature_ : float
        Best inverse temperature :math:`1/T`, by which logits are multiplied first; 1 where that has no bound.
    weight_decay_ : float
        The one used; infinite for temperature scaling.
    weight_decays_, held_out_losses_ : ndarray of shape (C,)
        What a choice by folds compared, and the mean log-loss of the rows held out; empty without a choice.
    sees_classes_ : bool
        Full and invariant kinds: whether the network sees the logits in the order of the classes, or sorted.
    input_means_, input_spreads_ : ndarray of shape (K,)
        Full and invariant kinds: by what inputs are brought to mean zero and variance one.
    knots_, slopes_ : ndarray
        Diagonal kind: where the slope of :math:`\varphi` changes, and the slopes, one before, between and after
        the knots if it is piecewise linear; for the integral of a network nodes and the slopes at them.
    solution_ : Solution
        How the fit went; for networks its ``theta`` are the weights and biases.

    Notes
    -----
    *Order.* One class is above another in the result exactly where it was above it in the input, and equal where it
    was equal, in logits and in probabilities, in float32 too; where rounding would have changed that, an entry moves
    by a rounding step. So every ranking of the classes, and the accuracy at any number of guesses, stays the same.

    *Fit.* The last layer of a network starts at zero, which is temperature scaling, and a quasi-Newton method on
    all rows takes it from there; from whatever random start, the penalised loss ends at nearly the same place.
    Temperature scaling itself is a candidate to the last, so neither it nor doing nothing has a lower
    loss on the calibration rows; where rows are all right, and no temperature is low enough, it is the identity that
    takes its place. The factors are :math:`w = \frac12 (m + \sqrt{m^2 + 4}) / T` for outputs m of the
    network: positive like the softplus of the paper, at a fraction of its cost, and :math:`1/T` for m = 0.
    An input counts as at most three standard deviations from its mean over the calibration rows, so that far
    outside the factors stay what they are at the edge, and nothing explodes.

    *Which kind.* The full kind has about 2 K h parameters for h units, and may mend what differs from class
    to class without touching the accuracy; with many classes it needs many rows. The invariant kind has as many but
    pools the classes. The diagonal kind is the safest with few rows. Choose by held-out loss, not by the test set.
    Where some class has no calibration row, the full kind sees the logits sorted like the invariant one: that
    such a class is always wrong is nothing to be learnt.

    *Programs.* That of the authors trains by Adam with ReLU units, up to two layers of 150, and shows rows to the
    network without scaling; it keeps, for each metric apart, the checkpoint that was best on rows held out and
    averages the logits of five folds, and later users of it chose the checkpoint on the test set. Here one
    network is fitted to all rows. The offset that the program adds to the diagonal function cancels in the softmax.

    *Cost.* O(nKh) time per pass, and some tens or hundreds of passes for each fit; a choice by folds takes five times
    ``cv`` fits besides the last, on several threads, and of many rows compares candidates on a part. Memory is that of
    several matrices of n by K in float64. Predicting costs two sorts of every row and one pass, in blocks.

    Examples
    --------
    Sure rows are wrong too often and unsure ones are honest; one temperature cannot mend both.

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
        """Whether classes may change places follows from the kind, whether logits matter from the inputs."""
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
            # Of a class without rows a network that tells classes apart would learn that it is always wrong.
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
        """Return the candidate with the lowest log-loss on rows held out; a unit of one row for a convex fit."""
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
            # Without a start the network is zero everywhere: temperature scaling.
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
        """Keep the map as plain arrays."""
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
