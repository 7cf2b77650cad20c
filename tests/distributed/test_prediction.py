"""Calibrated probabilities beside the columns of a frame, computed partition by partition."""

import numpy as np
import pyarrow as pa
import pytest
from partitions_of_rows import given, rows, table_of, tables_of, written

from calibrant import NearestNeighbourCalibration, TemperatureScaling, VectorScaling
from calibrant.distributed import predict_proba
from calibrant.errors import PredictionError

NEW = [f"calibrated_{column}" for column in range(4)]


def fitted_and_rows(n_rows=500):
    logits, labels = rows(n_rows)
    return VectorScaling().fit(given(logits), labels), logits, labels


def test_files_give_batches_that_have_all_columns(tmp_path):
    fitted, logits, labels = fitted_and_rows()
    paths = written(tmp_path, tables_of(logits, labels, [0, 120, 400]), row_group_size=90)
    found = predict_proba(fitted, paths, columns="p_*").read_all()
    assert found.column_names == ["p_0", "p_1", "p_2", "p_3", "y", *NEW]
    np.testing.assert_array_equal(found["y"].to_numpy(), labels)
    new = np.stack([found[name].to_numpy() for name in NEW], axis=1)
    np.testing.assert_array_equal(new, fitted.predict_proba(given(logits)))


def test_float32_stays_float32():
    fitted, logits, labels = fitted_and_rows()
    found = predict_proba(fitted, table_of(logits.astype(np.float32), labels), columns="p_*").read_all()
    assert found.schema.field("calibrated_0").type == pa.float32()


def test_a_map_without_a_graph_goes_as_it_is():
    logits, labels = rows(300)
    fitted = NearestNeighbourCalibration(n_neighbours=20).fit(given(logits), labels)
    found = predict_proba(fitted, table_of(logits, labels), columns="p_*").read_all()
    new = np.stack([found[name].to_numpy() for name in NEW], axis=1)
    assert new == pytest.approx(fitted.predict_proba(given(logits)), abs=1e-12)


def test_score_columns_can_be_replaced():
    fitted, logits, labels = fitted_and_rows()
    found = predict_proba(fitted, table_of(logits, labels), columns="p_*", prefix="p_").read_all()
    assert sorted(found.column_names) == ["p_0", "p_1", "p_2", "p_3", "y"]
    new = np.stack([found[f"p_{column}"].to_numpy() for column in range(4)], axis=1)
    np.testing.assert_array_equal(new, fitted.predict_proba(given(logits)))


def test_other_columns_than_in_the_fit_are_refused():
    fitted, logits, labels = fitted_and_rows()
    with pytest.raises(PredictionError, match=r"was fitted on 4 classes, but .* are 3 columns"):
        predict_proba(fitted, table_of(logits[:, :3], labels), columns="p_*")


def test_a_row_that_is_no_number_is_named(tmp_path):
    logits, labels = rows(100)
    fitted = TemperatureScaling().fit(given(logits), labels)
    logits[70, 1] = np.nan
    paths = written(tmp_path, tables_of(logits, labels, [50]))
    with pytest.raises(PredictionError, match=r"part-1.parquet, row 21: .*'p_1' is nan"):
        predict_proba(fitted, paths, columns="p_*").read_all()
