"""Parameterized temperature scaling (PTS): a small network predicts the temperature of every row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import Matrix, Vector
from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.inner_folds import choose_by_folds
from calibrant.calibrators.scaling.parameterized_temperature.losses import ExactRowLosses, row_losses
from calibrant.calibrators.scaling.parameterized_temperature.network import (
    TOLERANCE,
    Inputs,
    Link,
    RowTemperatures,
    StandardInputs,
    TemperatureLink,
    lowest_minimum,
    row_inputs,
    traced_row_inputs,
)
from calibrant.calibrators.scaling.temperature_fit import bounded_steepness, fit_inverse_temperature
from calibrant.errors import ConvergenceWarning, ParameterError
from calibrant.graph import TracedPredictions, Value
from calibrant.graph.apply import evaluated, mapped
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import warn_user
from calibrant.numerics.dense_network import Activation, DenseNetwork
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.row_blocks import one_blas_thread
from calibrant.options import (
    check_around_one,
    check_choice,
    check_not_negative,
    check_whole,
    is_whole,
    random_source,
)
from calibrant.predictions import Predictions
from calibrant.solvers import Solution, Status
from calibrant.solvers.adam import adam, shuffled_batches

__all__ = ["ParameterizedTemperatureScaling"]


@dataclass(frozen=True, eq=False)
class RowTemperatureMap:
    """Divide the logits of every row by a temperature that depends on the row.

    Attributes
    ----------
    inverse_temperature : float
        That of all rows together, of whose temperature those of rows are multiples.
    kind : {"gaps", "logits", "entropy"}
        What of a row is looked at.
    top_k : int
        How many of the largest scores are.
    standard : StandardInputs
        Units of the inputs.
    network : DenseNetwork
        From inputs to one output.
    theta : ndarray
        Parameters of the network.
    link : TemperatureLink
        From outputs to multiples.
    """

    inverse_temperature: float
    kind: Inputs
    top_k: int
    standard: StandardInputs
    network: DenseNetwork
    theta: Vector
    link: TemperatureLink

    def log_multiples(self, given: TracedPredictions) -> Value:
        """Return the logarithm of every row's temperature as a multiple of the single one, as float64."""
        inputs = traced_row_inputs(given, self.kind, self.top_k, self.inverse_temperature)
        standard = self.standard
        units = inputs.clip(standard.smallest, standard.largest) - standard.means
        units = units * (1 / standard.scales)
        outputs = units.network(self.network.layers(self.theta), self.network.activation)
        return self.link.traced(outputs)

    def temperatures(self, predictions: Predictions) -> Vector:
        """Return the temperature of every row, (n,)."""
        logarithms: Vector = evaluated(self.log_multiples, predictions)[:, 0]
        temperatures: Vector = np.exp(logarithms) / self.inverse_temperature
        return temperatures

    def __call__(self, predictions: Predictions) -> Predictions:
        """Return calibrated logits of predictions."""
        return mapped(self.traced, predictions)

    def traced(self, given: TracedPredictions) -> TracedPredictions:
        """Return calibrated logits; the largest of every row is zero and stays where it was."""
        logits = given.logits
        factors = self.log_multiples(given).affine(-1.0).function("exp") * self.inverse_temperature
        scaled = (logits - logits.row("max")) * factors.narrowed()
        return given.with_logits(scaled, "argmax")


# Of the published training: step size, rows of a batch, and the largest logit that the network sees.
LEARNING_RATE = 5e-5
BATCH_SIZE = 1000
LARGEST_LOGIT = 100.0

# For logits of any size that is not absurd.
SINGLE_BOUNDS = (1e-6, 1e6)

# Of more rows than this, a sample tells which start is the best.
MANY_ROWS = 20_000
SAMPLE_ROWS = 5_000

GOLDEN = (5**0.5 - 1) / 2  # no simple fraction, so that regular rows are scrambled too


@dataclass(frozen=True, eq=False)
class RowTemperatureFamily:
    """Maps to choose from, and how one is chosen.

    Attributes
    ----------
    kind : {"gaps", "logits", "entropy"}
        What of a row is looked at.
    top_k : int
        How many of the largest scores are.
    network : DenseNetwork
        From inputs to one output.
    link : TemperatureLink
        From outputs to multiples of the single temperature.
    loss : {"log", "brier"}
        What is minimised.
    starts : sequence of ndarray
        Parameters from which a search begins, each with the single temperature for every row.
    max_iterations : int
        Steps of one search at the most.
    """

    kind: Inputs
    top_k: int
    network: DenseNetwork
    link: TemperatureLink
    loss: Literal["log", "brier"]
    starts: Sequence[Vector]
    max_iterations: int

    def fitted(self, data: LabelledPredictions, weight_decay: float) -> tuple[RowTemperatureMap, Solution]:
        """Return the best map that was found for these rows, and how the search went.

        Where rows are all right there is no best single temperature, and temperatures are multiples of 1 instead.
        """
        single = fit_inverse_temperature(data, self.loss, SINGLE_BOUNDS)
        # The squared error of rows that are all right reaches zero, to all digits, well within bounds.
        all_right = _all_right(data)
        beta = 1.0 if all_right else bounded_steepness(single)
        inputs = row_inputs(data.predictions, self.kind, self.top_k, beta)
        standard = StandardInputs.of(inputs, data.weights)
        inputs = standard(inputs)
        objective = self._objective(data, inputs, beta, weight_decay)
        sample = None
        if data.n_rows > MANY_ROWS:
            rows = _sample(inputs, data)
            sample = self._objective(data.take(rows), inputs[rows], beta, weight_decay)
        minimum = lowest_minimum(objective, self.starts, self.max_iterations, sample)

        def with_parameters(theta: Vector) -> RowTemperatureMap:
            return RowTemperatureMap(beta, self.kind, self.top_k, standard, self.network, theta, self.link)

        found = with_parameters(minimum.theta)
        loss = self._mean_loss(data, found)
        of_single = single.identity_loss if beta == 1.0 else single.loss
        at_bound = all_right or single.status is Status.AT_BOUND
        theta, status = minimum.theta, Status.AT_BOUND if at_bound else minimum.status
        if loss > of_single:
            # Rounding of tables and of float32 only: the search itself ends no higher than the single temperature.
            theta = np.zeros_like(theta)
            found, loss = with_parameters(theta), of_single
        decayed = theta[self.network.is_weight]
        return found, Solution(
            theta=theta,
            value=loss + weight_decay * float(decayed @ decayed),
            loss=loss,
            identity_loss=single.identity_loss,
            decrement=TOLERANCE,
            n_iterations=minimum.n_iterations,
            n_evaluations=minimum.n_evaluations + single.n_evaluations,
            status=status,
        )

    def trained(
        self, data: LabelledPredictions, weight_decay: float, generator: np.random.Generator
    ) -> tuple[RowTemperatureMap, Solution]:
        """Return the map after a fixed number of steps of Adam from random temperatures, as published."""
        inputs = row_inputs(data.predictions, self.kind, self.top_k, 1.0)
        n_inputs = inputs.shape[1]
        standard = StandardInputs(
            np.zeros(n_inputs),
            np.ones(n_inputs),
            np.full(n_inputs, -LARGEST_LOGIT),
            np.full(n_inputs, LARGEST_LOGIT),
        )
        objective = RowTemperatures(
            network=self.network,
            link=self.link,
            inputs=standard(inputs),
            losses=ExactRowLosses(data.predictions.logits, data.labels, self.loss),
            start=0.0,
            weight_decay=weight_decay,
            weights=data.weights,
        )
        n_classes = (
            data.n_classes if self.loss == "brier" else 1
        )  # Keras averages the squared error over classes
        with one_blas_thread():
            theta = adam(
                lambda theta, rows: objective.batch_gradient(theta, rows) / n_classes,
                # The link shifts outputs so that zero is a temperature of one, but the network starts anywhere.
                self.network.glorot_start(generator, -1.0 if self.link.kind == "absolute" else 0.0),
                shuffled_batches(data.n_rows, BATCH_SIZE, self.max_iterations, generator),
                learning_rate=LEARNING_RATE,
            )
        found = RowTemperatureMap(1.0, self.kind, self.top_k, standard, self.network, theta, self.link)
        loss, decayed = self._mean_loss(data, found), theta[self.network.is_weight]
        return found, Solution(
            theta=theta,
            value=loss + weight_decay * float(decayed @ decayed),
            loss=loss,
            identity_loss=float("nan"),
            decrement=float("nan"),
            n_iterations=self.max_iterations,
            n_evaluations=1 + -(-self.max_iterations * BATCH_SIZE // max(data.n_rows, BATCH_SIZE)),
            status=Status.OUT_OF_ITERATIONS,
        )

    def _objective(
        self, data: LabelledPredictions, inputs: Matrix, beta: float, weight_decay: float
    ) -> RowTemperatures:
        start, limits = -float(np.log(beta)), self.link.limits
        return RowTemperatures(
            network=self.network,
            link=self.link,
            inputs=inputs,
            losses=row_losses(data, self.loss, (start + limits[0], start + limits[1])),
            start=start,
            weight_decay=weight_decay,
            weights=data.weights,
        )

    def _mean_loss(self, data: LabelledPredictions, found: RowTemperatureMap) -> float:
        calibrated = found(data.predictions)
        return data.log_loss(calibrated) if self.loss == "log" else data.squared_error(calibrated)


def _all_right(data: LabelledPredictions) -> bool:
    scores = data.predictions.scores
    return bool((scores[np.arange(data.n_rows), data.labels] == row_maxima(scores)).all())


def _sample(inputs: Matrix, data: LabelledPredictions) -> NDArray[np.intp]:
    """Return :data:`SAMPLE_ROWS` rows, the same whatever the order of the rows and of the classes."""
    # Digits far behind the point are as good as random, and belong to what a row holds.
    scrambled = inputs.sum(axis=1) * (1e4 * GOLDEN) % 1.0
    # Rows with equal inputs, such as saturated ones, are not to come all or none: their labels and weights number them.
    scores = data.predictions.scores
    of_labels = scores[np.arange(data.n_rows), data.labels]
    order = np.lexsort(
        (of_labels, scrambled) if data.weights is None else (data.weights, of_labels, scrambled)
    )
    place = np.arange(data.n_rows)
    is_first = np.append(True, np.diff(scrambled[order]) > 0)
    number = place - np.maximum.accumulate(np.where(is_first, place, 0))
    scrambled[order] = (scrambled[order] + number * GOLDEN) % 1.0
    return np.sort(np.argpartition(scrambled, SAMPLE_ROWS)[:SAMPLE_ROWS])


# Times the number of rows, chosen by cross-validation on calibration rows of networks: strong enough that held-out losses
# hardly ever exceed those of one temperature. The log-loss curves about twice as much as the squared error.
AUTOMATIC_DECAY = {"brier": 2.5, "log": 5.0}

# What inner folds choose from, in units of the automatic one; with the first, nearly every fit ends at one temperature.
CHOICES = (10.0, 3.0, 1.0, 0.3, 0.1)

NONE_IS_LOW_ENOUGH = (
    "the calibration rows are (nearly) all right, so that no single temperature is best; it stays at 1, and more rows "
    "would tell."
)
NONE_IS_HIGH_ENOUGH = (
    "the calibration rows say nothing, or the opposite of their scores, so that no single temperature is best; "
    "predictions become nearly uniform, and more rows would tell."
)


class ParameterizedTemperatureScaling(Calibrator):
    r"""Parameterized temperature scaling (PTS): divide the logits of a row by a temperature that a small network predicts.

    .. math:: \hat q = \mathrm{softmax}(z / T(z)), \qquad T(z) = T_0 \, \rho(g_\theta(x(z)))

    where x has the largest logits of the row in descending order, g is a small network, :math:`\rho` makes its
    output positive and :math:`T_0` is the best single temperature for the same loss, that of
    ``TemperatureScaling(loss)``. The parameters minimise, over the calibration set,

    .. math:: \frac{1}{n} \sum_i \ell(\hat q_i, y_i) + \lambda \sum_l \|W_l\|^2

    with the weights :math:`W_l` of all layers and free biases :cite:`tomani2022`.

    Parameters
    ----------
    hidden : tuple of int, default=(5, 5)
        Units of each hidden layer; ``()`` makes T a function of one linear combination of the inputs.
    top_k : int, default=10
        Number of largest logits that are inputs of the network, at least 2; all of them if there are fewer classes.
    loss : {"brier", "log"}, default="brier"
        Loss of the fit: the squared error summed over classes, or log-loss.
    inputs : {"gaps", "logits", "entropy"}, default="gaps"
        Inputs of the network: differences of the largest logits from the very largest; these logits themselves, as in the
        paper; or the entropy of :math:`\mathrm{softmax}(z / T_0)` divided by :math:`\log K`.
    link : {"softplus", "absolute", "exponential"}, default="softplus"
        The function :math:`\rho`, shifted such that :math:`\rho(0) = 1`; "absolute" is the paper's.
    activation : {"relu", "elu", "tanh"}, default="relu"
        Activation function of the hidden units.
    weight_decay : float, "auto" or "cv", default="auto"
        Regularisation strength :math:`\lambda`. "auto" is 2.5 / n, or 5 / n for log-loss, with n the number of rows or the
        total weight if that is larger; "cv" cross-validates 10, 3, 1, 0.3 and 0.1 times this value.
    cv : int, default=5
        Number of inner folds for ``weight_decay="cv"``.
    restarts : int, default=3
        Number of random starts, of which the best result is kept; one suffices without hidden units.
    bounds : tuple of float, default=(0.2, 5.0)
        Smallest and largest temperature of a row as multiples of the single one.
    max_iterations : int, default=1000
        Largest number of steps from each start; a fit that needs more warns.
    training : {"quasi-newton", "adam"}, default="quasi-newton"
        "adam" is the published training: ``max_iterations`` steps of size 5e-5 on batches of 1,000 rows, from one random start,
        with :math:`T_0 = 1` and inputs that are not standardised. It has no test of convergence. See :meth:`as_published`.
    random_state : int, Generator or None, default=0
        Source of the random starts and batches.

    Attributes
    ----------
    temperature_ : float
        The single temperature :math:`T_0`; 1 if it diverges because all calibration rows are correct.
    inverse_temperature_ : float
        1 / T_0.
    weights_ : list of ndarray
        Weights of every layer, (units before, units); all zero if a single temperature is as good.
    intercepts_ : list of ndarray
        Biases of every layer.
    input_means_, input_scales_ : ndarray
        Mean and standard deviation of the inputs, by which they are standardised.
    input_ranges_ : ndarray of shape (2, d)
        Smallest and largest inputs of the calibration rows.
    weight_decay_ : float
        The selected :math:`\lambda`.
    weight_decays_, held_out_losses_ : ndarray of shape (C,)
        Candidates of ``weight_decay="cv"``, the strongest first, and their held-out losses; else empty.
    solution_ : Solution
        Result of the solver; iterations and evaluations are totals over all starts.

    Notes
    -----
    *Start.* Hidden units start at random and the last layer at zero, so that every row has the single temperature, no unit
    is dead, and the quasi-Newton search can only reduce the objective. If the gain is less than the penalty, the single
    temperature is kept. So the training loss never exceeds that of the uncalibrated predictions nor, unless all rows are
    correct, that of temperature scaling by the same loss. The objective may have several local minima, so the result
    depends on the starts. Beyond 20,000 rows, a sample of about 5,000, which does not depend on the order of the rows,
    selects the best start, and its result is the start of a search on all rows.

    *Inputs.* "gaps" and "entropy" are invariant to a constant added to all logits of a row, "logits" are not; then a map
    fitted to logits requires logits. "gaps" are also invariant to the scale of the logits, since inputs are standardised
    and temperatures are multiples of :math:`T_0`. Inputs are clipped to the range of the calibration set.

    *Regularisation.* The network has about ninety parameters, and without weight decay it over-fits a few thousand rows. The
    squared error of a wrong row with a tiny temperature is bounded, while its log-loss is enormous. ``bounds`` keep
    temperatures near :math:`T_0`, but on very few rows :math:`T_0` itself may be tiny: use ``loss="log"`` then.
    If all rows are correct there is no optimum, since T = 0 is best; then :math:`T_0` is 1, with a warning.

    *Paper and program.* The paper has T = g(z). The authors' program uses :math:`|g|`, clipped to
    :math:`10^{\pm 12}`, clips logits to :math:`\pm 100`, averages the squared error also over classes, and takes 100,000
    steps of Adam from random temperatures, without weight decay. Some starts have temperature zero and no gradient in many
    or all rows. :meth:`as_published` trains so; only the logits that are divided by T are not clipped here. The short training
    is part of the method: the same family and objective, fitted to convergence by ``inputs="logits", link="absolute",
    weight_decay=0, bounds=(1e-12, 1e12)``, over-fits.
    The paper's linear variant is ``hidden=()``.

    *Two parameters.* ``inputs="entropy", hidden=(), link="exponential"`` is :math:`T = \exp(c_0 + c_1 H)`, the
    cheapest dependence on the row.

    Costs O(nK) per evaluation, and memory for a block of rows besides the inputs of the network. With many
    classes the loss of every row is first tabulated as a function of its temperature, after which evaluations cost
    O(n). Arg-max-preserving, since T > 0; ties by rounding are repaired.

    Examples
    --------
    A classifier that is correct in three of four rows with confidence 90 %, and calibrated at 60 %. Since
    :math:`9^{1/2} = 3`, the temperatures are 2 and 1.

    >>> p = [[0.9, 0.1]] * 20 + [[0.6, 0.4]] * 20
    >>> y = [0] * 15 + [1] * 5 + [0] * 12 + [1] * 8
    >>> fitted = ParameterizedTemperatureScaling(hidden=(), weight_decay=0).fit(p, y)
    >>> fitted.temperatures([[0.9, 0.1], [0.6, 0.4]]).round(2)
    array([2., 1.])
    >>> fitted.predict_proba([[0.9, 0.1], [0.6, 0.4]]).round(2)
    array([[0.75, 0.25], [0.6 , 0.4 ]])
    """

    structure: ClassVar[tuple[str, ...]] = ("inputs",)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"pts": {}}

    def __init__(
        self,
        hidden: tuple[int, ...] = (5, 5),
        top_k: int = 10,
        loss: Literal["brier", "log"] = "brier",
        inputs: Inputs = "gaps",
        link: Link = "softplus",
        activation: Activation = "relu",
        weight_decay: float | Literal["auto", "cv"] = "auto",
        cv: int = 5,
        restarts: int = 3,
        bounds: tuple[float, float] = (0.2, 5.0),
        max_iterations: int = 1000,
        training: Literal["quasi-newton", "adam"] = "quasi-newton",
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.hidden = hidden
        self.top_k = top_k
        self.loss = loss
        self.inputs = inputs
        self.link = link
        self.activation = activation
        self.weight_decay = weight_decay
        self.cv = cv
        self.restarts = restarts
        self.bounds = bounds
        self.max_iterations = max_iterations
        self.training = training
        self.random_state = random_state

    @classmethod
    def as_published(cls, random_state: int | np.random.Generator | None = 0) -> Self:
        """Return an unfitted calibrator with the settings and the training of the paper: 100,000 steps of Adam."""
        return cls(
            inputs="logits",
            link="absolute",
            weight_decay=0.0,
            bounds=(1e-12, 1e12),
            max_iterations=100_000,
            training="adam",
            random_state=random_state,
        )

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """The map depends on raw logits if they are inputs of the network."""
        return Traits(
            keeps_argmax=True,
            contains_identity=self.training != "adam",
            uses_raw_logits=self._setting("inputs") == "logits",
            shares_parameters=True,
        )

    def temperatures(self, X: Any) -> NDArray[np.float64]:
        """Return the temperature of every row, (n,)."""
        check_is_fitted(self)
        return self._map().temperatures(self._parsed(X).with_floor(self.floor_))

    def _fit(self, data: LabelledPredictions) -> None:
        self._check_parameters()
        family = self._family(data.n_classes)
        self.weight_decays_ = self.held_out_losses_ = np.empty(0)
        self.weight_decay_ = self._decay(data, family)
        if self.training == "adam":
            found, self.solution_ = family.trained(data, self.weight_decay_, random_source(self.random_state))
        else:
            found, self.solution_ = family.fitted(data, self.weight_decay_)
        self.inverse_temperature_ = found.inverse_temperature
        self.temperature_ = 1 / self.inverse_temperature_
        layers = found.network.layers(found.theta)
        self.weights_ = [weights.copy() for weights, _ in layers]
        self.intercepts_ = [biases.copy() for _, biases in layers]
        self.input_means_, self.input_scales_ = found.standard.means, found.standard.scales
        self.input_ranges_ = np.stack([found.standard.smallest, found.standard.largest])
        if self.training == "adam":
            return
        if self.solution_.status is Status.AT_BOUND:
            # Bounds are multiples of the single temperature, so other bounds would not help.
            reason = NONE_IS_LOW_ENOUGH if self.inverse_temperature_ >= 1 else NONE_IS_HIGH_ENOUGH
            warn_user(f"{type(self).__name__}: {reason}", ConvergenceWarning)
        else:
            self.solution_.warn_unless_converged(type(self).__name__)

    def _check_parameters(self) -> None:
        sizes = self.hidden
        if not isinstance(sizes, tuple | list) or not all(is_whole(size, 1) for size in sizes):
            raise ParameterError(
                f"hidden must be a tuple of whole numbers of at least 1, empty for none, not {sizes!r}."
            )
        check_whole("top_k", self.top_k, 2)
        check_choice("loss", self.loss, ("brier", "log"))
        check_choice("inputs", self._setting("inputs"), ("gaps", "logits", "entropy"))
        check_choice("link", self.link, ("softplus", "absolute", "exponential"))
        check_choice("activation", self.activation, ("relu", "elu", "tanh"))
        if not isinstance(self.weight_decay, str) or self.weight_decay not in ("auto", "cv"):
            check_not_negative("weight_decay", self.weight_decay, "'auto' or 'cv'")
        check_whole("cv", self.cv, 2)
        check_whole("restarts", self.restarts)
        check_around_one("bounds", self.bounds)
        check_whole("max_iterations", self.max_iterations)
        check_choice("training", self.training, ("quasi-newton", "adam"))
        if self.training == "adam" and self.weight_decay == "cv":
            raise ParameterError(
                'weight_decay="cv" needs training="quasi-newton"; pass a number for training="adam".'
            )

    def _decay(self, data: LabelledPredictions, family: RowTemperatureFamily) -> float:
        """Return the weight decay: given, by the number of rows, or cross-validated."""
        if not isinstance(self.weight_decay, str):
            return float(self.weight_decay)
        automatic = AUTOMATIC_DECAY[self.loss] / data.with_counting_weights().total_weight
        if self.weight_decay == "auto":
            return automatic
        choice = choose_by_folds(
            data,
            [automatic * factor for factor in CHOICES],
            lambda rows, weight_decay: family.fitted(rows, weight_decay)[0],
            n_folds=int(self.cv),
            loss=self.loss,
        )
        self.weight_decays_, self.held_out_losses_ = np.array(choice.candidates), choice.losses
        return choice.best

    def _family(self, n_classes: int) -> RowTemperatureFamily:
        kept = min(int(self.top_k), n_classes)
        n_inputs = {"gaps": kept - 1, "logits": kept, "entropy": 1}[self._setting("inputs")]
        network = DenseNetwork((n_inputs, *self.hidden, 1), self.activation)
        generator = random_source(self.random_state)
        # Without hidden units starts are deterministic.
        n_starts = int(self.restarts) if self.hidden else 1
        return RowTemperatureFamily(
            kind=self._setting("inputs"),
            top_k=int(self.top_k),
            network=network,
            link=self._link(),
            loss=self.loss,
            starts=[network.start(generator, 0.0) for _ in range(n_starts)],
            max_iterations=int(self.max_iterations),
        )

    def _link(self) -> TemperatureLink:
        smallest, largest = self.bounds
        return TemperatureLink(self.link, (float(smallest), float(largest)))

    def _map(self) -> RowTemperatureMap:
        parts = zip(self.weights_, self.intercepts_, strict=True)
        return RowTemperatureMap(
            inverse_temperature=self.inverse_temperature_,
            kind=self._setting("inputs"),
            top_k=int(self.top_k),
            standard=StandardInputs(self.input_means_, self.input_scales_, *self.input_ranges_),
            network=DenseNetwork(
                (len(self.weights_[0]), *(weights.shape[1] for weights in self.weights_)), self.activation
            ),
            theta=np.concatenate([part for pair in parts for part in (pair[0].ravel(), pair[1])]),
            link=self._link(),
        )

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        return self._map().traced(given)
