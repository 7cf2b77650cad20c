"""Fit a calibrator to rows in partitions: the same classes, the same fitted attributes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sklearn.base import clone

from calibrant.calibrator import Calibrator
from calibrant.calibrators import (
    AutoCalibration,
    BayesianBinning,
    Chain,
    EnsembleTemperatureScaling,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    NearIsotonicCalibration,
    OneVsRest,
    VennAbersCalibration,
)
from calibrant.calibrators.combinators.auto.folds import n_trial_rows
from calibrant.calibrators.parametric import Parametric
from calibrant.calibrators.reductions.binary_method import BinaryMethod
from calibrant.calibrators.reductions.fit_source import fit_source
from calibrant.distributed.event_levels import ClassLevels
from calibrant.distributed.opening import EngineName, source_of
from calibrant.distributed.source import PartitionedSource
from calibrant.errors import ParameterError
from calibrant.objective import RowSource
from calibrant.registry import make

__all__ = ["fit", "fit_counts", "fits_counts"]

Method = TypeVar("Method", bound=Calibrator)

# Maps that depend on the rows through the counts of events at every score.
BY_LEVELS = (
    IsotonicCalibration,
    VennAbersCalibration,
    NearIsotonicCalibration,
    HistogramBinning,
    BayesianBinning,
)

# Those and combinations of them; what else has ``fit_rows`` needs numbers of every row.
POSSIBLE = (Parametric, EnsembleTemperatureScaling, AutoCalibration, Identity, *BY_LEVELS)


def fit(
    calibrator: Method | str,
    frame: Any,
    *,
    label: str,
    columns: str | Sequence[str],
    space: str,
    sample_weight: str | None = None,
    key: str | None = None,
    classes: Sequence[Any] | None = None,
    engine: EngineName | None = None,
) -> Method:
    """Fit a calibrator to rows in partitions and return it, fitted.

    Parameters
    ----------
    calibrator : Calibrator or str
        What is fitted, or its name in the registry.
    frame : object
        Paths of Parquet, CSV or Feather files, a pyarrow data set or table, a DuckDB relation, a data frame of Dask or Spark,
        or a list of delayed frames.
    label : str
        Column with the true class.
    columns : str or sequence of str
        Score columns: names, or a pattern such as ``p_*``; a single one is the score of the second class of two.
    space : {"probabilities", "logits"}
        What the scores are.
    sample_weight : str, optional
        Column of weights.
    key : str, optional
        Column that says which rows belong together. Folds keep them together. By default the hash of the scores and the label
        of a row decides on its fold.
    classes : sequence of K labels, optional
        Labels of the columns, if neither column names nor labels tell.
    engine : {"local", "dask", "spark"}, optional
        Who reads paths: this process, the current client of Dask, or the current session of Spark.

    Returns
    -------
    Calibrator
        The calibrator that was given.

    Notes
    -----
    Every pass adds up what the partitions contribute. Workers hold one batch of about a million scores at a time, and the
    driver holds the sums. The number and order of partitions make no difference beyond the rounding of these sums.

    Parametric methods, ensemble temperature scaling and chains of them get the parameters of a fit in memory. Isotonic,
    Venn-Abers and binned maps see every different score as it is while a class has up to 65,536 of them (262,144 over K
    for more than four classes), and else its log-odds rounded to a multiple of 1/1024 (coarser for more than 16 classes).

    Examples
    --------
    >>> import pyarrow as pa
    >>> from calibrant import TemperatureScaling
    >>> table = pa.table({"p_0": [0.9] * 4, "p_1": [0.1] * 4, "y": [0, 0, 0, 1]})
    >>> fitted = fit(TemperatureScaling(), table, label="y", columns="p_*", space="probabilities")
    >>> round(fitted.temperature_, 6)
    2.0
    """
    method: Any = make(calibrator) if isinstance(calibrator, str) else calibrator
    _check_possible(method)
    source = source_of(
        frame,
        label=label,
        columns=columns,
        space=space,
        sample_weight=sample_weight,
        key=key,
        classes=classes,
        engine=engine,
    )
    _fit(method, source)
    fitted: Method = method
    return fitted


def _check_possible(method: Any) -> None:
    """Refuse what needs all rows at once, before anything is read."""
    if isinstance(method, Chain) and method.cross_fit is None:
        for stage in method.calibrators:
            _check_possible(stage)
    elif isinstance(method, OneVsRest):
        _check_possible(method.base)
    elif not isinstance(method, POSSIBLE):
        name = type(method).__name__ + ("(cross_fit=...)" if isinstance(method, Chain) else "")
        raise ParameterError(
            f"{name} needs all rows at once and cannot be fitted to partitions; fit TemperatureScaling, "
            "StructuredScaling, BetaCalibration or IsotonicCalibration there, or this one to a sample in memory."
        )


def _fit(method: Any, source: RowSource, *, warn_of_absent: bool = True) -> Any:
    if isinstance(method, BY_LEVELS):
        steps: Any = _fit_levels
    elif isinstance(method, Chain):
        steps = _fit_chain
    elif isinstance(method, AutoCalibration):
        steps = _fit_automatic
    elif isinstance(method, OneVsRest):
        steps = _fit_one_vs_rest
    elif isinstance(method, Identity):
        steps = _nothing
    else:
        steps = type(method)._fit_source
    fit_source(method, source, lambda rows: steps(method, rows), warn_of_absent=warn_of_absent)
    return method


def fits_counts(method: Calibrator) -> bool:
    """Return whether a method depends on the rows through the counts of events at every score."""
    return isinstance(method, BY_LEVELS)


def fit_counts(method: Any, source: RowSource) -> None:
    """Fit such a method in one pass over any source of rows, with scores rounded as in :func:`fit` if they are many."""
    fit_source(method, source, lambda rows: _fit_levels(method, rows))


def _fit_levels(method: BinaryMethod, source: RowSource) -> None:
    """Fit every class to the counts of its scores, which one pass collects."""
    method._check_parameters()
    found = source.with_counting_weights().summed(ClassLevels.of).levels
    if source.n_classes == 2:
        method._fit(found[0].rows())
        return

    def fit_classes(rows: RowSource) -> None:  # noqa: ARG001 (the counts say it all)
        together.identity_kept_ = False
        together.calibrators_ = [clone(method).fit_labelled(levels.rows()) for levels in found]

    together = OneVsRest(clone(method))
    fit_source(together, source, fit_classes, warn_of_absent=False)
    method.one_vs_rest_ = together


def _fit_one_vs_rest(method: OneVsRest, source: RowSource) -> None:
    method._fit_source(source, _fit)


def _fit_chain(method: Chain, source: RowSource) -> None:
    stages: list[Calibrator] = []
    for stage in method.calibrators:
        fitted = _fit(clone(stage), source, warn_of_absent=False)
        stages.append(fitted)
        source = source.mapped(
            lambda data, fitted=fitted: replace(  # type: ignore[misc]
                data, predictions=fitted.transform(data.predictions)
            )
        )
    method.calibrators_ = stages


def _fit_automatic(method: AutoCalibration, source: RowSource) -> None:
    """Try candidates on a sample chosen by hash, as of very many rows in memory, and fit those that are kept to all rows."""
    assert isinstance(source, PartitionedSource)
    source_of_counts = source.with_counting_weights()
    assert isinstance(source_of_counts, PartitionedSource)
    sample = source_of_counts.sample(n_trial_rows(source.n_classes))
    method._fit_trials(
        sample,
        source.n_rows,
        source_of_counts,
        lambda candidate: _fit(clone(candidate), source_of_counts, warn_of_absent=False),
    )


def _nothing(method: Identity, source: RowSource) -> None:
    """Fit the identity, which has nothing to learn."""
