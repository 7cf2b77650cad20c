"""One-vs-rest: one binary map for each class."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.identity_check import is_worse_than_identity
from calibrant.calibrators.reductions.event_scores import AgainstRest, binary_problem
from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.fit_cost import FitPart, JointCost
from calibrant.graph import TracedPredictions, Value
from calibrant.graph.apply import evaluated
from calibrant.graph.columns import Columns
from calibrant.graph.elementwise import Widen
from calibrant.graph.map_graph import MapGraph
from calibrant.graph.operation import Operation
from calibrant.graph.rows import NORMALISATIONS, Normalisation, Normalise
from calibrant.graph.trace import Event, Trace, parameter_names
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import gathered, warn_user
from calibrant.numerics.row_blocks import in_threads
from calibrant.objective import RowSource
from calibrant.options import check_choice
from calibrant.predictions import Predictions
from calibrant.solvers import Status
from calibrant.space import Space

__all__ = ["OneVsRest"]


class OneVsRest(Calibrator):
    r"""One-vs-rest reduction: one binary map per class, followed by normalisation.

    .. math:: g_j = h_j(p_j), \qquad \hat q = \mathrm{normalise}(g_1, \dots, g_K)

    where :math:`h_j` is fitted to the probability of class j and the indicator of class j
    :cite:`zadrozny2002`. Binary methods of this library do this automatically for more than two classes; use this class to
    choose the normalisation, or to wrap any other calibrator.

    Parameters
    ----------
    base : Calibrator
        Calibrator for two classes that is cloned and fitted for each class.
    normalisation : {"divide", "shift", "project"}, default="divide"
        Normalisation of the separate probabilities of a row: division by their sum, as in all papers; a common shift of
        their log-odds, which is the nearest distribution in Kullback-Leibler divergence; or projection onto the simplex,
        the nearest in least squares, which can give zeros.

    Attributes
    ----------
    calibrators_ : list of Calibrator
        One fitted map for each class that has calibration rows, in the order of ``classes_``; for two classes a
        single one, of the second class. The ``one_vs_rest_`` of a binary method has only such classes in its own
        ``classes_``.
    identity_kept_ : bool
        Whether the identity is used because the uncalibrated predictions have a lower log-loss on the calibration set (for
        ``"project"`` a lower Brier score). Only compared if the family of ``base`` contains the identity. Zeros are
        still raised to the floor.

    Notes
    -----
    *Zero rows.* If all maps give zero, the row keeps the probabilities of the classifier; programs of the
    literature return zeros, NaN or a uniform row. *Classes without calibration rows* keep the share of
    probability that the classifier gives them, as with every calibrator here, so that each map sees both outcomes.
    *Precision.* The probability of the rest is the sum of the other classes, not one minus the class, so that confident
    float32 rows have finite log-odds. Separate maps do not preserve the arg-max.

    Costs K fits of ``base``, on several threads for large data; with two classes one fit.

    Examples
    --------
    >>> from calibrant import TemperatureScaling
    >>> p = [[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1], [0.5, 0.2, 0.3]] * 4
    >>> y = [0, 1, 1, 0, 2, 0, 1, 1, 0, 1, 2, 1, 1, 0, 2, 0, 1, 2, 0, 2]
    >>> fitted = OneVsRest(TemperatureScaling()).fit(p, y)
    >>> [round(calibrator.temperature_, 3) for calibrator in fitted.calibrators_]
    [3.125, 2.117, 1.348]
    >>> fitted.class_probabilities(p[:1]).round(3)          # before they are made to sum to one
    array([[0.567, 0.342, 0.164]])
    >>> fitted.predict_proba(p[:1]).round(3)
    array([[0.529, 0.319, 0.153]])
    """

    calibrators_: list[Calibrator]

    def __init__(self, base: Calibrator, normalisation: Normalisation = "divide") -> None:
        self.base = base
        self.normalisation = normalisation

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """Traits that follow from the base."""
        # A fit refuses a base that is no calibrator.
        base = self.base.traits if isinstance(self.base, Calibrator) else Traits()
        return Traits(
            contains_identity=base.contains_identity,
            commutes_with_permutations=base.commutes_with_permutations,  # of two classes one is the event
            uses_raw_logits=base.uses_raw_logits,
        )

    def class_probabilities(self, X: object) -> NDArray[np.floating]:
        """Return the separate probability of every class, (n, K), whose rows need not sum to one.

        Programs of the papers that do not normalise evaluate these. A class without calibration rows has the
        classifier's probability, and the others their probability given that the class is one of them.
        """
        check_is_fitted(self)
        predictions = self._parsed(X).with_floor(self.floor_)
        return evaluated(self._all_separate, predictions)

    def _all_separate(self, given: TracedPredictions) -> Value:
        """Return the separate probabilities of all classes; classes without rows keep theirs."""
        columns = self.present_columns_
        if columns is None:
            return self._separate(given)
        absent = np.setdiff1d(np.arange(given.n_classes), columns)
        return self._separate(given.restricted_to(columns)).joined(
            self._as_given(given).columns(absent), columns=np.argsort(np.concatenate([columns, absent]))
        )

    @property
    def fit_cost(self) -> JointCost:  # type: ignore[override]
        """Cost of one binary fit per class."""
        return JointCost([FitPart(getattr(self.base, "fit_cost", None), one_vs_rest=True)])

    def _fit(self, data: LabelledPredictions) -> None:
        if not isinstance(self.base, Calibrator):
            raise ParameterError(
                f"base must be a calibrator such as IsotonicCalibration(), not {self.base!r}."
            )
        check_choice("normalisation", self.normalisation, NORMALISATIONS)
        self.identity_kept_ = False
        if data.n_classes == 2:
            self.calibrators_ = [clone(self.base).fit_labelled(data)]
            return
        against = AgainstRest(data.predictions)
        with gathered(data.n_classes, "one-vs-rest fit"):
            self.calibrators_ = in_threads(
                partial(self._fitted, against, data), range(data.n_classes), data.n_rows
            )
        self._keep_identity_if_better(data, self._transform)

    def _fit_source(
        self,
        source: RowSource,
        fit: Callable[[Any, RowSource], Calibrator] = lambda base, of_class: base.fit_rows(of_class),
    ) -> None:
        """Fit out-of-core rows, class by class."""
        self.identity_kept_ = False
        self.calibrators_ = []
        with gathered(source.n_classes, "one-vs-rest fit"):
            for column in range(source.n_classes):
                of_class = source.mapped(
                    lambda data, column=column: binary_problem(  # type: ignore[misc]
                        AgainstRest(data.predictions).column(column), data.labels == column, data.weights
                    )
                )
                self.calibrators_.append(fit(clone(self.base), of_class))
        self._keep_identity_if_better(source, self._transform)

    def _keep_identity_if_better(
        self, data: LabelledPredictions | RowSource, calibrated: Callable[[Predictions], Predictions]
    ) -> None:
        # Each map is at least as good as the identity for its class; made to sum to one they need not be. What
        # projection minimises is the squared error, and its zeros make the log-loss infinite.
        loss: Literal["log", "brier"] = "brier" if self.normalisation == "project" else "log"
        if self.base.traits.contains_identity and is_worse_than_identity(data, calibrated, loss):
            self.identity_kept_ = True
            warn_user(
                f"{type(self.base).__name__}, one-vs-rest: {Status.IDENTITY.value}.",
                CalibrationWarning,
            )

    def _fitted(self, against: AgainstRest, data: LabelledPredictions, column: int) -> Calibrator:
        binary = binary_problem(against.column(column), data.labels == column, data.weights)
        fitted: Calibrator = clone(self.base).fit_labelled(binary)
        return fitted

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        if self.identity_kept_:
            return given.without_zeros()
        if given.n_classes == 2:
            return self.calibrators_[0]._trace(given)
        separate = self._separate(given)
        return given.with_probabilities(separate.then(Normalise(self.normalisation), given.probabilities))

    def _separate(self, given: TracedPredictions) -> Value:
        """Return the separate probability of every class."""
        if given.n_classes == 2:
            return self.calibrators_[0]._trace(given).probabilities
        for calibrator in self.calibrators_:
            given.raw.trace.visit(calibrator, calibrator._version)
        maps = [calibrator._mapped_event for calibrator in self.calibrators_]
        # Exact zeros of a map stay; positive values do not underflow to zero.
        return stacked_events(given.against_rest, maps).narrowed(keep_positive=True)


def stacked_events(events: Event, maps: Sequence[Callable[[Event], Event]]) -> Value:
    """Return the calibrated probability of every event, column j by ``maps[j]``, as float64.

    Maps that consist of the same operations are applied together, with one parameter per column. All others are
    applied column by column.
    """
    assert events.rest is not None
    # One trace for all, so that what maps have in common is traced once.
    trace = Trace(2)
    event = TracedPredictions(trace.input, events.space, events.floor).event
    graphs = [trace.graph(one(event).probability, events.space, Space.PROBABILITIES) for one in maps]
    groups: dict[Any, list[int]] = {}
    for column, graph in enumerate(graphs):
        groups.setdefault(_structure(graph), []).append(column)
    results, columns = [], []
    for members in groups.values():
        together = _together([graphs[column] for column in members], events, members)
        if together is not None:
            results.append(together)
            columns.extend(members)
            continue
        for column in members:
            pair = events.rest.columns([column]).joined(events.own.columns([column]))
            results.append(_replayed(graphs[column], pair))
            columns.append(column)
    if len(results) == 1:
        return results[0].columns(np.argsort(columns))
    return results[0].joined(*results[1:], columns=np.argsort(columns))


def _structure(graph: MapGraph) -> Any:
    """Return the structure of a graph; graphs with equal structure can be stacked."""
    return tuple(
        (
            type(node.operation),
            node.sources,
            tuple(
                value if isinstance(value, str | bool | type(None)) else None
                for value in (getattr(node.operation, name) for name in parameter_names(type(node.operation)))
            ),
            tuple(node.operation.columns.tolist()) if type(node.operation) is Columns else None,
        )
        for node in graph.nodes
    )


def _together(graphs: list[MapGraph], events: Event, members: list[int]) -> Value | None:
    assert events.rest is not None
    values: list[Value | None] = [None]
    sides = [events.rest, events.own]
    for number, (operation, sources) in enumerate(graphs[0].nodes):
        if sources == (0,) and type(operation) is Columns and len(operation.columns) == 1:
            values.append(sides[int(operation.columns[0])].columns(members))
            continue
        if type(operation) is Widen and (widened := values[sources[0]]) is not None and widened.is_wide:
            values.append(widened)
            continue
        parts: list[Operation] = [graph.nodes[number].operation for graph in graphs]
        taken = [values[source] for source in sources]
        stacked = type(operation).stacked(parts)
        if stacked is None or any(value is None for value in taken):
            return None
        first, *others = [value for value in taken if value is not None]
        values.append(first.then(stacked, *others))
    return values[-1]


def _replayed(graph: MapGraph, given: Value) -> Value:
    values = [given]
    for operation, sources in graph.nodes:
        first, *others = (values[source] for source in sources)
        values.append(first.then(operation, *others))
    return values[-1]
