"""Decision calibration: repair where decisions would rest on the worst predictions."""

from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix, Vector
from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.neighbourhood.decision.repairs import (
    Adjustment,
    Plan,
    Repair,
    Repairs,
    SearchEffort,
    View,
    ViolationOf,
    best_decisions,
    mean_gap,
    parsed_losses,
)
from calibrant.calibrators.neighbourhood.decision.search import (
    MOST_ITERATIONS,
    losses_held_out,
    losses_without_repairs,
    still_gains,
)
from calibrant.calibrators.neighbourhood.held_out_losses import (
    PointLosses,
    as_they_came,
    better_floor,
    point_folds,
)
from calibrant.calibrators.neighbourhood.points import Crop, Points, check_crop, settled_epsilon, traced_crop
from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.graph import TracedPredictions
from calibrant.graph.apply import mapped
from calibrant.graph.order import FirstOfLeast
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import warn_user
from calibrant.numerics.rounding import SAME_COST
from calibrant.options import (
    check_choice,
    check_flag,
    check_not_negative,
    check_whole,
    is_number,
    is_whole,
    random_source,
)
from calibrant.predictions import Predictions
from calibrant.solvers import Status
from calibrant.space import Space

__all__ = ["DecisionCalibration"]


# In squared standard errors. A gap g is one of g^2 - s^2 elsewhere, and of s^2 after a repair: equal at g^2 = 2 s^2.
WORTH_A_REPAIR = 2.0
# A rest of half a standard error adds an eighth to the standard error that remains in any case.
WELL_REPAIRED = 0.25


class Evidence(NamedTuple):
    """How far losses are from their expectation.

    Attributes
    ----------
    gap : float
        Root mean square, over losses, of the difference between mean real and mean expected loss.
    standard_error : float
        That of such differences, in the same way.
    violation : float
        Largest violation of any loss in units of what chance leads to.
    """

    gap: float
    standard_error: float
    violation: float

    def is_within(self, limit: float) -> bool:
        """Tell whether the squared gap is within a limit, in squared standard errors, and the violation explained.

        Chance explains a violation of one, and its square to the same limit if that is above one.
        """
        return self.gap**2 <= limit * self.standard_error**2 and self.violation**2 <= max(limit, 1)


class RepairsUpToChance(NamedTuple):
    """The repairs, and for 0, 1, 2, ... of them gaps, standard errors and violations as in :class:`Evidence`."""

    repairs: list[Repair]
    gaps: Vector
    standard_errors: Vector
    violations: Vector


def evidence(
    seen: Matrix, labels: Matrix, shares: Vector, n_rows: float, matrices: NDArray[np.float64]
) -> Evidence:
    """Compare losses with their expectation, and the violations of their decisions with chance.

    Parameters
    ----------
    seen, labels : ndarray of shape (u, K)
        Different predictions, and the mean labels of the rows that have them.
    shares : ndarray of shape (u,)
        Their shares in the total weight.
    n_rows : float
        Total weight: how many rows there are.
    matrices : ndarray of shape (m, n_decisions, K)
        Losses.

    Examples
    --------
    An error is expected in one row of ten, and found in one of four. Errors cost 1.

    >>> found = evidence(np.array([[0.9, 0.1]]), np.array([[0.75, 0.25]]), np.ones(1), 100.0, 1 - np.eye(2)[np.newaxis])
    >>> round(found.gap, 12), round(found.standard_error**2, 12)       # 0.25 * 0.75 / 100
    (0.15, 0.001875)
    """
    residuals = (labels - seen) * shares[:, np.newaxis]
    # Mean over the rows of a point of || label - prediction ||^2; labels are ones.
    squares = 1 - 2 * np.einsum("jk,jk->j", labels, seen) + np.einsum("jk,jk->j", seen, seen)
    squares *= shares
    gaps, variances, violations = [], [], []
    for losses in matrices:
        parts = best_decisions(seen, losses)
        own = losses[parts.argmax(axis=0)]  # (u, K): what the decision for each row costs in each class
        expected = np.einsum("jk,jk->j", own, seen)
        differences = own - expected[:, np.newaxis]
        of_points = differences * labels
        gap = float(shares @ of_points.sum(axis=1))
        gaps.append(gap)
        differences *= of_points
        variances.append(max(float(shares @ differences.sum(axis=1)) - gap**2, 0.0) / n_rows)
        violation = float(np.linalg.norm(parts @ residuals, axis=1).sum())
        chance = float(np.sqrt(np.maximum(parts @ squares, 0) / n_rows).sum())
        violations.append(violation / chance if chance > 0 else 0.0)
    return Evidence(
        float(np.linalg.norm(gaps) / np.sqrt(len(gaps))), float(np.sqrt(np.mean(variances))), max(violations)
    )


def repairs_up_to_chance(
    points: Points, plan: Plan, losses: NDArray[np.float64], most: int = MOST_ITERATIONS
) -> RepairsUpToChance:
    """Repair until gaps are small beside their standard errors and no violation is above chance.

    None at all where the first gaps are too small for a repair to help with rows not seen. If repairs do not get there,
    those with the least gap are taken.
    """
    on_points = Repairs(points, plan)

    def judged(seen: Matrix) -> Evidence:
        return evidence(seen, on_points.labels, on_points.shares, on_points.n_rows, losses)

    # Predictions that are left alone are not cropped.
    found = [judged(on_points.scores)]
    repairs: list[Repair] = []
    done = found[0].is_within(WORTH_A_REPAIR)
    while not done and len(repairs) < most and still_gains([each.gap for each in found]):
        repair = on_points.next()
        if repair is None:
            break
        repairs.append(repair)
        found.append(judged(plan.view(on_points.scores)))
        done = found[-1].is_within(WELL_REPAIRED)
    wanted = len(repairs) if done else int(np.argmin([each.gap for each in found]))
    gaps, standard_errors, violations = np.array(found).T
    return RepairsUpToChance(repairs[:wanted], gaps, standard_errors, violations)


# Differences of mean losses, relative to their size, that mean nothing.
ROUNDING = 1e-12


class DecisionCalibration(Calibrator):
    r"""Find the split of the simplex in which predictions are worst, move its parts, and repeat.

    .. math:: f^{(t)}(p) = f^{(t-1)}(p) + \sum_{i=1}^{k} b_i \, a_i, \qquad
              b = \mathrm{softmax}\bigl(W f^{(t-1)}(p)\bigr), \qquad
              W = \arg\max_W \sum_{i=1}^{k} \Bigl\| \hat{\mathbb{E}} \, (Y - f^{(t-1)}) \, b_i \Bigr\|_2

    Whoever decides between k actions by least expected loss splits the simplex by linear boundaries. If what happens is
    on average as predicted in every part of every such split, then each of these losses is in the mean what it was
    expected to be, whatever its entries: predictions are *decision calibrated* :cite:`zhao2021`. Each repair finds the
    partition that is furthest from it and adds to every part what is missing there; this is Algorithm 1 of
    :cite:`valk2022`. In the end rows are cropped to the simplex.

    Parameters
    ----------
    n_decisions : int, default=2
        Number k of actions to decide between, and of parts.
    n_iterations : int or "auto", default="auto"
        Number of repairs; ``"auto"`` takes the smallest one, 0 to 100, whose loss on rows held out is not above the
        lowest by more than a standard error of the difference. It may take none, without a warning: see
        ``n_iterations_``. All numbers are judged in one pass, which ends when six further repairs gain less than a
        thousandth. With ``loss_matrices`` it repairs until no more of their gaps is left than chance explains, see the
        notes.
    tolerance : float, default=0.0
        No more repairs once the violation, the maximum above, is no larger. Predictions that are calibrated still have
        one of about :math:`1 / \sqrt n` on n rows, so that much smaller ones are noise.
    adjustment : {"ratio", "least-squares"}, default="ratio"
        Whether :math:`a_i` is the mean residual of part i, :math:`\hat{\mathbb{E}}[(Y - f) b_i] / \hat{\mathbb{E}}[b_i]`, or
        the :math:`a_i` together minimise the squared error. Both are the same for hard partitions.
    loss_matrices : array of shape (n_decisions, K) or (n_losses, n_decisions, K), optional
        Your own losses: what decision d costs if class k, in the order of the columns, is the true one; arrays or lists,
        not frames. Then only these count: parts are the rows for which the same decision is best, without soft
        boundaries, and each repair is that of the loss with the largest violation. ``n_decisions``, ``steepness``,
        ``restarts``, ``loss`` and ``cv`` have no meaning with it.
    violation_of : {"clipped", "scores"}, default="clipped"
        Whether parts and residuals are those of f clipped to [0, 1], which is close to what will be given out, or of f
        itself, whose entries may have left that range. With ``loss_matrices`` ``"clipped"`` means cropped, which is
        what will be given out. See the notes.
    steepness : float, default=40.0
        Limit on the entries of W, with that of the last part fixed at zero: how sharp boundaries may become. Sharper ones
        have larger violations, and fit themselves to single rows.
    restarts : int, default=1
        Further searches for W besides the one from the most promising start. The violation has many local maxima.
    loss : {"brier", "log"}, default="brier"
        What ``"auto"`` and ``guard`` judge by unless there are ``loss_matrices``.
    crop : {"clip", "outside"}, default="clip"
        How rows are brought back to the simplex: all entries into [epsilon, 1 - epsilon], or only those outside [0, 1];
        then rows are divided by their sums.
    epsilon : float or "auto", default="auto"
        Smallest probability given out, before that division: 1e-4 for up to ten classes, :math:`0.01 / K^2` for more.
    cv : int, splitter or iterable, default=5
        Folds for ``"auto"``; a number of them keeps rows with equal predictions together, a splitter is taken at its
        word. Every fold costs nearly as much as a fit, hence five.
    random_state : int, Generator or None, default=0
        Source of those starts that are random.
    guard : bool, default=True
        Whether to give up all repairs if together they do harm to the calibration rows, see the notes; False applies
        them all the same. Where ``"auto"`` takes none, there is nothing to apply.

    Attributes
    ----------
    n_iterations_ : int
        Repairs made; 0 if the identity is kept.
    partitions_ : ndarray of shape (n_iterations_, n_decisions, K)
        W of every repair; with ``loss_matrices`` the loss that was repaired.
    adjustments_ : ndarray of shape (n_iterations_, n_decisions, K)
        What every repair adds in its parts.
    violations_ : ndarray of shape (n_iterations_,)
        Violation that every repair found.
    search_ : dict of str to ndarray
        With ``"auto"`` the mean ``"loss"`` on rows held out for every number in ``"n_iterations"``, and the
        ``"standard_error"`` of how far it is above the lowest. With ``loss_matrices`` in its place the ``"gap"``, with
        its standard error, and the ``"violation"`` in units of chance, on the calibration rows. Empty if there was no
        choice.
    epsilon_ : float
        Smallest probability given out, before rows are divided by their sums.
    is_hard_ : bool
        Whether parts are those of ``loss_matrices``.
    identity_kept_ : bool
        Whether predictions are given out as they came, zeros apart: no repair was worth while, or all of them together
        do harm.
    floor_of_zeros_ : float
        What exact zeros count as then: ``epsilon_``, or the floor if the calibration rows like it better.

    Notes
    -----
    **When.** Apply it to predictions that a method with few parameters has calibrated already, as in
    ``"temperature+decision"``. What it adds is the same for all rows of a part: that lowers the Brier score and the gap
    between expected and real losses, but small probabilities fall below zero, end as ``epsilon`` and cost log-loss when
    they come true. For the sake of log-loss, take ``loss="log"`` or another method.

    **Never worse than nothing.** With ``violation_of="scores"`` no repair raises the squared error of f on the
    calibration rows, soft or hard: both adjustments are contractions of the residuals. With ``"clipped"`` they are
    contractions of other residuals than those of f, and cropping changes f in the end. So with ``guard`` the whole is
    compared with doing nothing on the calibration rows, and given up with a warning if it is worse: if it raises their
    ``loss``, or with ``loss_matrices`` the mean of the absolute gaps, whatever happens to Brier score and log-loss.
    For log-loss, doing nothing may count zeros as the floor or crop them, whichever is better.

    **How many repairs.** A repair more lowers the loss of the rows it was learnt from, and with few rows the lowest loss
    held out is mostly luck: to take it costs some percent of Brier score and log-loss on a hundred rows. Hence the
    smallest number that does nearly as well. Searches for it are less thorough than those of the fit.

    **How many repairs for your own losses.** The loss of rows held out may say little about these gaps, so the gaps
    themselves are what counts. Let :math:`g_l` be the gap of loss l, the mean over calibration rows of real less expected loss of
    the best decisions, with standard error :math:`s_l`, and chance the violation that labels drawn from the
    predictions would lead to, about :math:`\sum_i ( \hat{\mathbb{E}} \, b_i \| Y - f \|^2 / n )^{1/2}`.

    - No repair is made if :math:`\sum_l g_l^2 \le 2 \sum_l s_l^2` and no squared violation is above twice that of
      chance. A gap of :math:`g` is expected to be one of :math:`g^2 - s^2` on other rows, squared, and one of about
      :math:`s^2` after a repair: smaller ones than that are better left alone.
    - Otherwise repairs end when :math:`\sum_l g_l^2 \le \frac14 \sum_l s_l^2` and no violation is above chance. What is
      left then is little beside what nobody can know from these rows. If 100 repairs do not get there, or ten of them
      gain nothing, it is the number with the least sum.

    It takes no folds: what the fit does to the gap of its own rows is what is wanted, chance is known, and the gap of
    a fifth of the rows would be mostly noise. On rows that are not those of the fit a gap of about :math:`s_l` remains.

    **The search.** L-BFGS within bounds, with gradients, from the most promising of some starts: the directions in
    which scores and residuals have the largest covariance, single classes, and random ones. Bounds stand in for what
    limits the published program, Adam with a few small steps; between 10 and 100 held-out scores hardly depend on them.
    There is no offset in W: where rows sum to one, a number added to all weights of a part is one.

    **The published program** differs from Algorithm 1 as it is printed. Each partition and adjustment is learnt from
    predictions that were clamped to [0, 1] (but for 1e-7), while the adjustments add up on those that were not; this
    repairs what clamping does, and lowers Brier score and calibration error much further. It is the default here,
    except that the parts of a row are always those of its clipped scores; ``violation_of="scores"`` is the algorithm as
    printed. The program's adjustments are ``"least-squares"``. It clamps to [1e-7, 1 - 1e-7] before the cropping of
    :cite:`valk2022` sees a row, so that ``epsilon=1e-7`` gives figures of that kind, with their large log-loss. And the
    number of repairs there is the one with the lowest Brier score on the *test* rows, which ``"auto"`` never sees. With
    ``loss_matrices`` rows are not only clipped but cropped, or else the division by their sums would open again the
    gaps that were closed.

    **Costs.** A search takes some tens of passes of O(n K k) over the different predictions, a repair with its starts
    O(n K (k + K)) besides; memory is O(n K). Predicting takes O(n K k) for each repair, in blocks of rows.

    Examples
    --------
    Not to treat a sick patient costs 10, to treat costs 1. Of ten patients with 5 % two were sick; the forecast
    of 40 % was right.

    >>> from calibrant.metrics import bayes_decisions
    >>> losses = [[0, 10],       # wait
    ...           [1, 1]]        # treat
    >>> p = [[0.95, 0.05]] * 10 + [[0.6, 0.4]] * 10
    >>> sick = [0] * 8 + [1] * 2 + [0] * 6 + [1] * 4
    >>> fitted = DecisionCalibration(n_iterations=1, loss_matrices=losses).fit(p, sick)
    >>> fitted.adjustments_.round(12)
    array([[[-0.15,  0.15], [ 0.  ,  0.  ]]])
    >>> fitted.predict_proba([[0.95, 0.05], [0.6, 0.4]]).round(12)
    array([[0.8, 0.2], [0.6, 0.4]])
    >>> bayes_decisions(p, losses)[[0, 10]], bayes_decisions(fitted.predict_proba(p), losses)[[0, 10]]
    (array([0, 1]), array([1, 1]))
    """

    traits = Traits(contains_identity=True)
    structure: ClassVar[tuple[str, ...]] = ("violation_of", "crop")
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"decision": {}}

    partitions_: NDArray[np.float64]
    adjustments_: NDArray[np.float64]
    violations_: NDArray[np.float64]
    n_iterations_: int
    search_: dict[str, NDArray[Any]]
    epsilon_: float
    is_hard_: bool
    identity_kept_: bool
    floor_of_zeros_: float

    def __init__(
        self,
        n_decisions: int = 2,
        n_iterations: int | Literal["auto"] = "auto",
        tolerance: float = 0.0,
        adjustment: Adjustment = "ratio",
        loss_matrices: Any = None,
        violation_of: ViolationOf = "clipped",
        steepness: float = 40.0,
        restarts: int = 1,
        loss: Literal["brier", "log"] = "brier",
        crop: Crop = "clip",
        epsilon: float | Literal["auto"] = "auto",
        cv: Any = 5,
        random_state: int | np.random.Generator | None = 0,
        guard: bool = True,
    ) -> None:
        self.n_decisions = n_decisions
        self.n_iterations = n_iterations
        self.tolerance = tolerance
        self.adjustment = adjustment
        self.loss_matrices = loss_matrices
        self.violation_of = violation_of
        self.steepness = steepness
        self.restarts = restarts
        self.loss = loss
        self.crop = crop
        self.epsilon = epsilon
        self.cv = cv
        self.random_state = random_state
        self.guard = guard

    def _fit(self, data: LabelledPredictions) -> None:
        plan = self._plan(data.n_classes)
        data = data.with_counting_weights()
        points, floor = Points.of(data), data.predictions.floor
        self.epsilon_ = plan.view.epsilon
        self.is_hard_ = plan.view.hard
        self.search_ = {}
        self._set_state(plan, data.n_classes, self._repairs(data, points, plan))
        if self.guard and self.n_iterations_ > 0 and self._does_harm(points, plan, floor):
            self._set_state(plan, data.n_classes, [])
            warn_user(f"{type(self).__name__}: {Status.IDENTITY.value}.", CalibrationWarning)
        if self.identity_kept_:
            self.floor_of_zeros_ = better_floor(points, floor, self.epsilon_)

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        if self.identity_kept_:
            return as_they_came(given, self.floor_of_zeros_)
        crop, scores = self._setting("crop"), given.probabilities.widened
        for partition, adjustment in zip(self.partitions_, self.adjustments_, strict=True):
            seen = scores
            if self._setting("violation_of") != "scores":
                seen = traced_crop(scores, crop, self.epsilon_) if self.is_hard_ else scores.clip(0.0, 1.0)
            expected = seen.dense(partition.T)
            if self.is_hard_:
                parts = expected.then(FirstOfLeast(SAME_COST * float(np.abs(partition).max())))
            else:
                parts = expected.softmax()
            scores = scores + parts.dense(adjustment)
        return given.with_probabilities(traced_crop(scores, crop, self.epsilon_).narrowed())

    def _plan(self, n_classes: int) -> Plan:
        """Check all parameters before anything is computed."""
        check_whole("n_decisions", self.n_decisions, least=2)
        wanted: Any = self.n_iterations
        if not is_whole(wanted, 1) and not (isinstance(wanted, str) and wanted == "auto"):
            raise ParameterError(
                f"n_iterations must be 'auto' or a whole number of at least 1, not {wanted!r}."
            )
        check_not_negative("tolerance", self.tolerance, "such as 0.01")
        check_choice("adjustment", self.adjustment, ("ratio", "least-squares"))
        check_choice("violation_of", self.violation_of, ("clipped", "scores"))
        check_choice("loss", self.loss, ("brier", "log"))
        check_flag("guard", self.guard)
        check_crop(self.crop, self.epsilon)
        check_whole("restarts", self.restarts, least=0)
        if not is_number(self.steepness) or not 0 < self.steepness < np.inf:
            raise ParameterError(f"steepness must be a positive number, such as 40, not {self.steepness!r}.")
        source = random_source(self.random_state)
        losses = None
        if self.loss_matrices is not None:
            losses = parsed_losses(self.loss_matrices, len(self.classes_))
            if self.present_columns_ is not None:
                losses = losses[:, :, self.present_columns_]
        return Plan(
            int(self.n_decisions) if losses is None else losses.shape[1],
            losses,
            self.adjustment,
            View(losses is not None, self.violation_of, self.crop, settled_epsilon(self.epsilon, n_classes)),
            float(self.steepness),
            SearchEffort(1 + int(self.restarts)),
            float(self.tolerance),
            int(source.integers(2**63)),
        )

    def _repairs(self, data: LabelledPredictions, points: Points, plan: Plan) -> list[Repair]:
        if self.n_iterations == "auto" and plan.losses is not None:
            found = repairs_up_to_chance(points, plan, plan.losses)
            self.search_ = {
                "n_iterations": np.arange(len(found.gaps)),
                "gap": found.gaps,
                "standard_error": found.standard_errors,
                "violation": found.violations,
            }
            return found.repairs
        wanted = self._chosen(data, points, plan) if self.n_iterations == "auto" else int(self.n_iterations)
        return _found(points, plan, wanted)

    def _chosen(self, data: LabelledPredictions, points: Points, plan: Plan) -> int:
        """Return the number of repairs by the loss on points held out; none if there is but one point."""
        splits = [(fold.train(), fold.test()) for fold in point_folds(points, data, self.cv)]
        if not splits:
            return 0
        held_out = losses_held_out(splits, plan, self.loss, data.predictions.floor)
        self.search_ = {
            "n_iterations": np.arange(len(held_out.losses)),
            "loss": held_out.losses,
            "standard_error": held_out.standard_errors,
        }
        return held_out.smallest_number()

    def _does_harm(self, points: Points, plan: Plan, floor: float) -> bool:
        """Tell whether doing nothing is better on the calibration rows: for the gaps of given losses, or for the loss."""
        as_given, labels = points.probabilities.astype(np.float64), points.labels()
        rows = Predictions(as_given, Space.PROBABILITIES, None, floor)
        given = mapped(self._traced, rows).probabilities.astype(np.float64, copy=False)
        if plan.losses is not None:
            shares = (points.weights / points.weights.sum())[:, np.newaxis]
            before = mean_gap(as_given, (labels - as_given) * shares, plan.losses)
            after = mean_gap(given, (labels - given) * shares, plan.losses)
            return after > before + ROUNDING * float(np.abs(plan.losses).max())
        losses = PointLosses.of(labels, points.weights, given)
        after = float(np.average(losses.log if self.loss == "log" else losses.brier, weights=points.weights))
        before = float(
            np.average(losses_without_repairs(points, plan, self.loss, floor), weights=points.weights)
        )
        return after > before * (1 + ROUNDING)

    def _set_state(self, plan: Plan, n_classes: int, repairs: list[Repair]) -> None:
        shape = (len(repairs), plan.n_decisions, n_classes)
        self.partitions_ = np.array([repair.partition for repair in repairs]).reshape(shape)
        self.adjustments_ = np.array([repair.adjustment for repair in repairs]).reshape(shape)
        self.violations_ = np.array([repair.violation for repair in repairs])
        self.n_iterations_ = len(repairs)
        self.identity_kept_ = not repairs


def _found(points: Points, plan: Plan, n_iterations: int) -> list[Repair]:
    """Return so many repairs, or fewer if nothing is left to repair."""
    on_points = Repairs(points, plan)
    repairs: list[Repair] = []
    while len(repairs) < n_iterations and (repair := on_points.next()) is not None:
        repairs.append(repair)
    return repairs
