"""Probabilities whose sums are not one: rounded, in percent, or something else."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from calibrant.errors import ParameterError, PredictionError
from calibrant.space import Space
from calibrant.tables import open_source, read_predictions, rewrite
from calibrant.tables.prediction_file import PredictionFile
from calibrant.tables.score_checks import ScoreParser


def write_rows(path, rows, header="y,p_cat,p_dog,p_owl"):
    lines = [
        f"{name},{','.join(map(str, row))}" for name, row in zip(["cat", "dog", "owl"], rows, strict=True)
    ]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


ROUNDED = [(0.33, 0.33, 0.33), (0.2, 0.5, 0.3), (0.34, 0.34, 0.34)]


def test_rounded_rows_are_divided_by_their_sums_if_asked_for(tmp_path):
    """The sums are 0.99, 1 and 1.02, so two rows change, and the sums by at most 0.02."""
    path = write_rows(tmp_path / "a.csv", ROUNDED)
    with PredictionFile(open_source(path), space="probabilities", normalise=True) as file:
        found = file.read().predictions.probabilities
        assert_allclose(found, [[1 / 3] * 3, [0.2, 0.5, 0.3], [1 / 3] * 3])
        note = "2 rows were divided by their sums, which differed from one by at most 0.02."
        assert file.notes == [note]
        list(file.batches(1))  # a second pass does not count twice
        assert file.notes == [note]


def test_rows_that_need_nothing_are_left_alone(tmp_path):
    path = write_rows(tmp_path / "a.csv", [(0.5, 0.25, 0.25)] * 3)
    with PredictionFile(open_source(path), space="probabilities", normalise=True) as file:
        assert file.read().predictions.scores.tolist() == [[0.5, 0.25, 0.25]] * 3
        assert file.notes == ["no row was normalised: all sums are one."]


def test_a_rewritten_file_can_be_normalised(tmp_path):
    path = write_rows(tmp_path / "a.csv", ROUNDED)
    with open_source(path) as source:
        columns = source.score_columns("p_*", [], Space.PROBABILITIES)
        parser = ScoreParser(columns, Space.PROBABILITIES, normalise=True)
        rewrite(source, tmp_path / "b.csv", columns, parser, lambda p: p.probabilities, n_rows=1)
    assert parser.n_changed == 2
    found = read_predictions(tmp_path / "b.csv", space="probabilities").predictions.scores
    assert_allclose(found.sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize(
    ("rows", "advice"),
    [
        (ROUNDED, "over the columns 'p_cat', 'p_dog' and 'p_owl'; if they were rounded, normalise the rows"),
        ([(33, 33, 34), (20, 50, 30), (1, 98, 1)], "if they are in percent, divide them by 100"),
        ([(1, 0.5, 0.5), (2, 0.5, 0.5), (3, 0.5, 0.5)], "column 'p_cat' looks like a row number or an id"),
        ([(0.3, 0.1, 0.1)] * 3, "declare the space as logits if these are logits"),
        ([(-1.5, 2.5, 0.1)] * 3, "declare the space as logits if these are logits"),
    ],
)
def test_the_advice_follows_from_what_the_scores_look_like(tmp_path, rows, advice):
    path = write_rows(tmp_path / "a.csv", rows)
    with pytest.raises(PredictionError, match=advice) as caught:
        read_predictions(path, space="probabilities", columns="p_*")
    assert ("logits" in str(caught.value)) == ("logits" in advice)


def test_one_column_in_percent(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,p\n0,20\n1,95.5\n")
    with pytest.raises(PredictionError, match=r"column 'p' is 20, .* if they are in percent"):
        read_predictions(path, space="probabilities", columns="p")


def test_sums_far_from_one_are_refused_also_with_normalising(tmp_path):
    path = write_rows(tmp_path / "a.csv", [(0.3, 0.3, 0.3)] * 3)
    with pytest.raises(PredictionError, match=r"sum to 0\.9 and not to 1"):
        read_predictions(path, space="probabilities", normalise=True)


def test_logits_cannot_be_normalised(tmp_path):
    path = write_rows(tmp_path / "a.csv", [(0.5, 1.5, 0.3)] * 3)
    with pytest.raises(ParameterError, match="rows of logits do not sum to one"):
        read_predictions(path, space="logits", normalise=True)


def test_arrays_of_float32_keep_their_type(tmp_path):
    np.savez(tmp_path / "a.npz", probs=np.array(ROUNDED, dtype=np.float32), y=np.arange(3))
    found = read_predictions(tmp_path / "a.npz", space="probabilities", normalise=True).predictions.scores
    assert found.dtype == np.float32
    assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
