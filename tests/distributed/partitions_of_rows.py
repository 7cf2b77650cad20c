"""Rows in partitions for the tests of all engines, and the methods whose parameters must be those of a fit in memory."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from calibrant import Predictions
from calibrant.calibrator import Calibrator
from calibrant.registry import make

N_CLASSES, N_ROWS = 4, 3000
COLUMNS = [f"p_{column}" for column in range(N_CLASSES)]

# Methods of the promise: the same theta to 1e-8 on every engine.
STRENGTHS = {"reg_lambda": 0.01, "reg_mu": 0.02}
PROMISED = {
    "temperature": {},
    "vector": {},
    "matrix-l2": STRENGTHS,
    "dirichlet-odir": STRENGTHS,
    "shared-matrix": {},
}


def promised(name: str) -> Calibrator:
    return make(name).set_params(**PROMISED[name])


def rows(n_rows: int = N_ROWS, n_classes: int = N_CLASSES, seed: int = 0):
    """Over-confident logits and their labels; class 0 comes first, so that early partitions lack the others."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0.0, 2.0, (n_rows, n_classes))
    labels = (logits / 1.6 + generator.gumbel(size=logits.shape)).argmax(axis=1)
    order = np.argsort(labels != 0, kind="stable")
    return logits[order], labels[order]


def table_of(scores, labels, weights=None) -> pa.Table:
    columns = {f"p_{column}": scores[:, column] for column in range(scores.shape[1])}
    if weights is not None:
        columns["w"] = weights
    return pa.table({**columns, "y": labels})


def tables_of(scores, labels, ends: Sequence[int], weights=None) -> list[pa.Table]:
    """Cut the rows at some places; equal places make an empty partition."""
    edges = [0, *ends, len(labels)]
    return [
        table_of(scores[a:b], labels[a:b], None if weights is None else weights[a:b])
        for a, b in pairwise(edges)
    ]


def written(folder, tables: Sequence[pa.Table], row_group_size: int = 10_000) -> list[str]:
    folder.mkdir(exist_ok=True)
    paths = [str(folder / f"part-{number}.parquet") for number in range(len(tables))]
    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path, row_group_size=row_group_size)
    return paths


def given(logits) -> Predictions:
    return Predictions.from_logits(logits)


def theta(fitted: Calibrator) -> np.ndarray:
    found: np.ndarray = fitted._theta
    return found


LOGITS = {"label": "y", "columns": "p_*", "space": "logits"}
