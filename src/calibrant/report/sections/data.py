"""Sections "Data" and "Settings and versions": a summary of the rows, and what reproduces the numbers."""

import platform
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from math import isinf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.row_blocks import BlockSums
from calibrant.numerics.simplex import softmax
from calibrant.presentation.document import Facts, OnPage, Paragraph, Section
from calibrant.presentation.html import as_html
from calibrant.presentation.markup import element
from calibrant.presentation.sentences import class_named, counted, listed, quoted
from calibrant.presentation.values import count, duration, percent
from calibrant.report.contents import DataSummary, Origin, Repeatability
from calibrant.report.evaluation_set import EvaluationSet
from calibrant.report.sections import Assessment, section_at
from calibrant.space import Space

__all__ = ["data_summary", "date_now", "origin_of_arrays", "repeatability"]

PACKAGES = ("calibrant", "numpy", "scipy", "scikit-learn")
MOST_NAMES = 20
ROWS_PER_BLOCK = 2**14


@section_at(180)
def data_section(assessment: Assessment) -> Section:
    """Return the section with facts on the data."""
    data = assessment.data
    left_out = f"; {counted(data.n_left_out, 'row')} of weight zero dropped" if data.n_left_out else ""
    facts = [
        ("Rows", f"{count(data.n_rows)}{left_out}"),
        ("Classes", count(data.n_classes)),
        ("Held-out rows", data.split),
        ("Predictions", f"{data.space}, {data.float_type}"),
    ]
    if data.class_counts:
        (fewest, smallest), (most, largest) = (
            (one, data.classes[data.class_counts.index(one)])
            for one in (min(data.class_counts), max(data.class_counts))
        )
        unit = "weight" if data.weighted else "rows"
        sizes = (
            f"from {count(fewest)} {unit} ({class_named(smallest)}) to {count(most)} ({class_named(largest)})"
        )
        facts.append(("Class sizes", sizes))
    if data.absent_classes:
        facts.append(("Classes without rows", listed([*map(quoted, data.absent_classes)], MOST_NAMES)))
    effective = f"yes; effective sample size {count(round(data.effective_rows, 1))}"
    facts.append(("Weights", effective if data.weighted else "none"))
    if data.n_groups is not None:
        facts.append(("Groups", f"{count(data.n_groups)}, kept together in cross-validation"))
    infinite = ": the log-loss is infinite" if data.n_refuted else ""
    ties = f"{count(data.n_distinct)}; {percent(data.largest_tie)} of the rows have the most frequent one"
    facts += [
        ("Probabilities of exactly zero", count(data.n_zeros)),
        ("Rows whose true class had probability zero", f"{count(data.n_refuted)}{infinite}"),
        ("Distinct confidences", ties),
    ]
    return Section("data", "Data", (Facts(tuple(facts)), *_made(assessment.origin)))


def _made(origin: Origin | None) -> tuple[Facts, ...]:
    """Return when, from what and how the report was made."""
    if origin is None:
        return ()
    what = f"SHA-256 of {origin.file}" if origin.file else "SHA-256 of scores and labels"
    entries = (("Date", origin.date), (what, origin.sha256), ("Command", origin.command))
    return (Facts(tuple((term, text) for term, text in entries if text), "Origin"),)


@section_at(190)
def settings_section(assessment: Assessment) -> Section | None:
    """Return the section with settings, versions and run times."""
    found = assessment.repeatability
    times = {name: duration(seconds) for name, seconds in found.seconds.items() if not isinf(seconds)}
    groups = {"Settings": found.settings, "Versions": found.versions, "Run time": times}
    facts = tuple(Facts(tuple(entries.items()), title) for title, entries in groups.items() if entries)
    if not facts:
        return None
    lead = Paragraph("These settings and versions reproduce the numbers.", "lead")
    beside = element("div", *map(as_html, facts), class_="facts-groups")
    return Section("repeat", "Settings and versions", (lead, OnPage(beside, facts)))


def data_summary(rows: EvaluationSet, n_left_out: int, split: str) -> DataSummary:
    """Return the summary of all rows of positive weight; reads the predictions once, in blocks."""
    data = rows.data
    confidence, true_class, n_zeros = _confidences(rows)
    weights = data.weights
    _, counts = np.unique(confidence, return_counts=True)
    hits = data.predictions.predicted == data.labels
    class_weights = data.class_weights
    present = np.bincount(data.labels, minlength=data.n_classes) > 0
    total = data.total_weight
    effective = float(data.n_rows) if weights is None else total**2 / float(weights @ weights)
    return DataSummary(
        n_rows=data.n_rows,
        n_classes=data.n_classes,
        space=str(data.predictions.space.value),
        float_type=str(data.predictions.scores.dtype),
        classes=rows.class_names,
        class_counts=tuple(class_weights.tolist()),
        absent_classes=tuple(
            name for name, is_present in zip(rows.class_names, present, strict=True) if not is_present
        ),
        effective_rows=effective,
        weighted=weights is not None,
        n_groups=rows.n_groups,
        n_zeros=n_zeros,
        n_refuted=int(np.count_nonzero(true_class == 0)),
        n_distinct=len(counts),
        largest_tie=float(counts.max() / data.n_rows),
        mean_confidence=rows.mean(confidence),
        accuracy=rows.mean(hits),
        split=split,
        n_left_out=n_left_out,
    )


def _confidences(rows: EvaluationSet) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return confidences, probabilities of the true class, and the number of probabilities that are exactly zero.

    Only zeros in given probabilities count: a softmax is never zero, though its float may be.
    """
    scores, space = rows.predictions.scores, rows.predictions.space
    predicted, labels = rows.predictions.predicted, rows.data.labels
    confidence, true_class = np.empty(rows.n_rows), np.empty(rows.n_rows)

    def read(block: slice) -> int:
        part = scores[block]
        given = space is Space.PROBABILITIES
        probabilities = part if given else np.asarray(softmax(part))
        every = np.arange(len(part))
        confidence[block] = np.minimum(probabilities[every, predicted[block]], 1.0)
        # A softmax that is rounded to zero still has a finite logarithm.
        true_class[block] = probabilities[every, labels[block]] if given else 1.0
        return int(part.size - np.count_nonzero(part)) if given else 0

    with BlockSums.over(rows.n_rows, rows.n_classes, scores.itemsize) as in_all_blocks:
        n_zeros = in_all_blocks(read)
    return confidence, true_class, int(n_zeros)


def origin_of_arrays(rows: EvaluationSet) -> Origin:
    """Return the date and the hash of scores and column numbers of the true classes."""
    digest = sha256()
    scores = rows.predictions.scores
    for start in range(0, rows.n_rows, ROWS_PER_BLOCK):
        digest.update(np.ascontiguousarray(scores[start : start + ROWS_PER_BLOCK]).data)
    digest.update(np.ascontiguousarray(rows.data.labels, dtype=np.int64).data)
    return Origin(date_now(), digest.hexdigest())


def date_now() -> str:
    """Return the current time in UTC, to the minute."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def repeatability(settings: dict[str, Any], seconds: dict[str, float]) -> Repeatability:
    """Return settings as text, package versions, and the run time of each step."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return Repeatability(
        {name: str(value) for name, value in settings.items()},
        versions,
        {part: round(taken, 3) for part, taken in seconds.items()},
    )
