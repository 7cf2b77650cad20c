"""Every file format reads the same rows as CSV, completely and in batches, and writes them with new scores.

The file of a format in ``examples`` has the rows of ``rows(12)``: labels in ``animal``, probabilities in ``p_cat``,
``p_dog`` and ``p_owl``, or in one array.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from prediction_files import CLASSES, rows

from calibrant.errors import FileFormatError, LabelError, MissingExtraError, ParameterError, PredictionError
from calibrant.space import Space
from calibrant.tables import PredictionFile, formats, open_source, read_predictions, rewrite

EXAMPLES = Path(__file__).parent / "examples"
P, ANIMALS = rows(12)
CODES = np.array([CLASSES.index(name) for name in ANIMALS])

every_format = pytest.mark.parametrize("kind", formats(), ids=lambda kind: kind.name)


@pytest.fixture
def path(kind, tmp_path):
    """Return a copy of the example file of the format."""
    found = [file for file in EXAMPLES.iterdir() if file.name in {f"rows{ending}" for ending in kind.endings}]
    if not found:
        pytest.fail(
            f"tests/tables/examples has no file of the format {kind.name!r}; add rows{kind.endings[0]} with the rows of rows.csv."
        )
    copy = tmp_path / found[0].name
    shutil.copy(found[0], copy)
    try:
        open_source(copy).close()
    except MissingExtraError as error:
        pytest.skip(str(error))
    return copy


def check(table, p):
    """Check scores and labels; formats without text have the numbers of the classes."""
    assert_allclose(table.predictions.scores, p, rtol=1e-15)
    assert_array_equal(table.labels, CODES if np.issubdtype(table.labels.dtype, np.integer) else ANIMALS)


@every_format
def test_rows_are_those_of_csv(kind, path):
    check(read_predictions(path, space="probabilities", label="animal"), P)


@every_format
@pytest.mark.parametrize("n_rows", [1, 5, 12, 100])
def test_batches_add_up(kind, path, n_rows):
    with open_source(path) as source:
        batches = list(PredictionFile(source, space="probabilities", label="animal").batches(n_rows))
        assert all(0 < len(batch.labels) <= n_rows for batch in batches)
        scores = np.concatenate([batch.predictions.scores for batch in batches])
        assert_allclose(scores, P, rtol=1e-15)


@every_format
@pytest.mark.parametrize("n_rows", [5, 100])
def test_new_scores_take_the_place_of_the_old_ones(kind, path, n_rows):
    with open_source(path) as source:
        columns = source.score_columns(None, ["animal"], Space.PROBABILITIES)

        def halfway_to_even(predictions):
            return (predictions.probabilities + 1 / 3) / 2

        if kind.name == "NPY":  # a structured array
            with pytest.raises(ParameterError, match="apply a calibrator to an NPZ file instead"):
                rewrite(source, path, columns, Space.PROBABILITIES, halfway_to_even, n_rows=n_rows)
            return
        assert rewrite(source, path, columns, Space.PROBABILITIES, halfway_to_even, n_rows=n_rows) == 12
    check(read_predictions(path, space="probabilities", label="animal"), (P + 1 / 3) / 2)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@every_format
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_a_truncated_file_is_an_error_or_has_fewer_rows(kind, path, kept):
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    try:
        scores = read_predictions(path, space="probabilities", label="animal").predictions.scores
    except (FileFormatError, LabelError, PredictionError):
        return
    except Exception as error:
        pytest.fail(
            f"The reader of {kind.name!r} raised {type(error).__name__} for a truncated file; raise FileFormatError."
        )
    assert len(scores) < 12
    assert_allclose(scores, P[: len(scores)], rtol=1e-15)
