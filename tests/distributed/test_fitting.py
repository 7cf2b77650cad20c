"""Fits over partitions of files on this machine equal fits in memory, whatever the partitions."""

import duckdb
import hypothesis
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import strategies as st
from partitions_of_rows import (
    LOGITS,
    PROMISED,
    given,
    promised,
    rows,
    table_of,
    tables_of,
    theta,
    written,
)
from sklearn.base import clone

from calibrant import Chain, IsotonicCalibration, OneVsRest, TemperatureScaling, registry
from calibrant.distributed import fit
from calibrant.distributed.engine import Engine, InProcess, TableRows, TreeSum
from calibrant.errors import LabelError, MissingClassWarning, ParameterError, PartitionError

ENDS = [0, 1, 700, 700, 1500, 2990]

# Those that agree with a fit in memory; levels are exact for this few rows.
OTHERS = [
    "bias-corrected-temperature",
    "shared-map",
    "shared-vector",
    "structured-vector",
    "structured-matrix",
    "beta",
    "platt",
    "quadratic",
    "piecewise-linear",
    "ets",
    "isotonic",
    "isotonic-centered",
    "venn-abers",
    "width-binning",
    "frequency-binning",
    "bbq",
    "enir",
    "uncalibrated",
    "temperature+isotonic",
]


@pytest.mark.parametrize("name", PROMISED)
def test_parameters_are_those_of_a_fit_in_memory(name, tmp_path):
    logits, labels = rows()
    expected = promised(name).fit(given(logits), labels)
    paths = written(tmp_path, tables_of(logits, labels, ENDS), row_group_size=400)
    for order in (paths, paths[::-1]):
        assert theta(fit(promised(name), order, **LOGITS)) == pytest.approx(theta(expected), abs=1e-8)


@pytest.mark.parametrize("name", OTHERS)
def test_maps_are_those_of_a_fit_in_memory(name, tmp_path):
    logits, labels = rows(1200)
    expected = registry.make(name).fit(given(logits), labels)
    paths = written(tmp_path, tables_of(logits, labels, [0, 500, 501]), row_group_size=400)
    fitted = fit(name, paths, **LOGITS)
    assert type(fitted) is type(expected)
    assert fitted.predict_proba(given(logits)) == pytest.approx(
        expected.predict_proba(given(logits)), abs=1e-9
    )


@pytest.mark.parametrize("name", ["temperature", "vector", "beta", "ets (loss=log)", "isotonic"])
def test_probabilities_with_zeros_and_weights(name):
    """Floors of zeros and bounds of weights are those of all rows, not of a partition."""
    logits, labels = rows(1500)
    probabilities = given(2 * logits).probabilities.copy()
    probabilities[probabilities < 1e-4] = 0.0
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    weights = np.random.default_rng(1).gamma(2.0, 1.0, len(labels)) * (np.arange(len(labels)) % 7 > 0)
    weights[1] = 1e-14
    method = registry.make("ets").set_params(loss="log") if "log" in name else registry.make(name)
    expected = clone(method).fit(probabilities, labels, weights)
    partitions = tables_of(probabilities, labels, [0, 1, 2, 400], weights)
    table = pa.concat_tables(partitions)
    fitted = fit(method, table, label="y", columns="p_*", space="probabilities", sample_weight="w")
    assert fitted.floor_ == expected.floor_
    assert fitted.predict_proba(probabilities) == pytest.approx(
        expected.predict_proba(probabilities), abs=1e-9
    )


@hypothesis.settings(max_examples=12)
@hypothesis.given(
    ends=st.lists(st.integers(0, 600), max_size=6).map(sorted),
    order=st.randoms(use_true_random=False),
    name=st.sampled_from(["temperature", "vector", "isotonic", "matrix-odir"]),
)
def test_the_partition_does_not_matter(ends, order, name):
    """Empty partitions and those of one class included; ``matrix-odir`` searches its strengths by folds."""
    logits, labels = rows(600, 3)
    tables = tables_of(logits, labels, ends)
    order.shuffle(tables)
    method = registry.make(name)
    if name == "matrix-odir":
        method.set_params(reg_lambda=[0.01, 1.0], reg_mu=None, cv=3)
    layouts = [InProcess(tables[0].schema, [TableRows(part, "a table") for part in tables])]
    layouts.append(InProcess(tables[0].schema, [TableRows(table_of(logits, labels), "a table")]))
    found = [_fitted_on(engine, clone(method)).predict_proba(given(logits)) for engine in layouts]
    assert found[0] == pytest.approx(found[1], abs=1e-9)


def _fitted_on(engine: Engine, method):
    from calibrant.distributed.fitting import _fit
    from calibrant.distributed.layout import layout_of
    from calibrant.distributed.source import PartitionedSource

    layout = layout_of(engine.schema, "p_*", "logits", label="y")
    return _fit(method, PartitionedSource.of(engine, layout))


def test_a_class_without_rows(tmp_path):
    logits, labels = rows(900)
    labels[labels == 3] = 0
    with pytest.warns(MissingClassWarning, match="class 3"):
        expected = registry.make("vector").fit(given(logits), labels).predict_proba(given(logits))
    paths = written(tmp_path, tables_of(logits, labels, [200, 600]))
    with pytest.warns(MissingClassWarning, match="class 3"):
        fitted = fit("vector", paths, **LOGITS)
    assert fitted.predict_proba(given(logits)) == pytest.approx(expected, abs=1e-9)


def test_strings_as_labels_and_column_names():
    logits, labels = rows(600, 3)
    names = np.array(["owl", "ant", "bee"])
    table = table_of(logits, names[labels]).rename_columns(["p_owl", "p_ant", "p_bee", "y"])
    fitted = fit(TemperatureScaling(), table, **LOGITS)
    assert fitted.classes_.tolist() == ["owl", "ant", "bee"]
    expected = TemperatureScaling().fit(given(logits), labels)
    assert fitted.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)


def test_a_single_column_is_the_second_class():
    logits, labels = rows(600, 2)
    p = given(logits).probabilities[:, 1]
    fitted = fit("platt", pa.table({"p": p, "y": labels}), label="y", columns="p", space="probabilities")
    expected = registry.make("platt").fit(p, labels)
    assert fitted.predict_proba(p) == pytest.approx(expected.predict_proba(p), abs=1e-9)


def test_float32_columns_stay_float32():
    logits, labels = rows(600)
    logits = logits.astype(np.float32)
    fitted = fit("vector", table_of(logits, labels), **LOGITS)
    expected = registry.make("vector").fit(given(logits), labels)
    assert fitted.weights_ == pytest.approx(expected.weights_, abs=1e-7)


def test_relations_of_duckdb_and_csv_files_and_data_sets(tmp_path):
    logits, labels = rows(900)
    table = table_of(logits, labels)
    expected = TemperatureScaling().fit(given(logits), labels).temperature_
    with duckdb.connect() as connection:
        connection.register("t", table)
        connection.execute(f"COPY t TO '{tmp_path}/rows.csv'")
        relation = connection.sql("SELECT y, p_3, p_2, p_1, p_0, 'x' AS note FROM t")
        names = [f"p_{column}" for column in range(4)]
        frames = [relation, str(tmp_path / "*.csv"), ds.dataset(table), table.to_pandas()]
        for frame in frames:
            fitted = fit(TemperatureScaling(), frame, label="y", columns=names, space="logits")
            assert fitted.temperature_ == pytest.approx(expected, rel=1e-8)


def test_columns_that_are_part_of_the_path(tmp_path):
    logits, labels = rows(900)
    ds.write_dataset(
        table_of(logits, labels), tmp_path, format="parquet", partitioning=["y"], partitioning_flavor="hive"
    )
    fitted = fit(TemperatureScaling(), str(tmp_path), **LOGITS)
    expected = TemperatureScaling().fit(given(logits), labels)
    assert fitted.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)


def test_rows_of_one_key_are_in_one_fold():
    """With keys that pair every row with a copy of another label, folds by content would part the pairs."""
    logits, labels = rows(600, 3)
    table = table_of(np.repeat(logits, 2, axis=0), np.repeat(labels, 2))
    keyed = table.append_column("who", pa.array([f"n{row // 2}" for row in range(1200)]))
    from calibrant.distributed.layout import layout_of
    from calibrant.distributed.source import PartitionedSource

    engine = InProcess(keyed.schema, [TableRows(keyed, "a table")])
    layout = layout_of(keyed.schema, "p_*", "logits", label="y", key="who")
    source = PartitionedSource.of(engine, layout)
    features = source.features(lambda predictions: predictions.scores)
    total = 0
    for train, test in features.folds(3):
        with test.passes(3) as summed:
            held_out = summed(lambda block: [row.tobytes() for row in block.features])
        with train.passes(3) as summed:
            learnt = summed(lambda block: [row.tobytes() for row in block.features])
        assert not set(held_out) & set(learnt)
        assert len(held_out) == test.n_rows
        total += len(held_out)
    assert total == 1200


def test_automatic_choice_fits_all_rows():
    """Of more rows than the trials take, those that are kept are fitted to all of them."""
    logits, labels = rows(3000, 3)
    table = table_of(logits, labels)
    method = registry.make("auto").set_params(candidates=["temperature", "shared-vector"])
    fitted = fit(clone(method), table, **LOGITS)
    expected = clone(method).fit(given(logits), labels)
    assert fitted.weights_ == pytest.approx(expected.weights_, abs=1e-6)
    assert fitted.predict_proba(given(logits)) == pytest.approx(
        expected.predict_proba(given(logits)), abs=1e-6
    )


def test_one_against_the_rest_of_any_method():
    logits, labels = rows(900, 3)
    method = OneVsRest(IsotonicCalibration(), normalisation="shift")
    fitted = fit(clone(method), table_of(logits, labels), **LOGITS)
    expected = clone(method).fit(given(logits), labels).predict_proba(given(logits))
    assert fitted.predict_proba(given(logits)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["knn-kl", "gp", "spline", "top-label-binning"])
def test_methods_that_need_all_rows_say_so(name):
    with pytest.raises(ParameterError, match=r"needs all rows at once.*TemperatureScaling"):
        fit(name, table_of(*rows(10)), **LOGITS)


def test_a_chain_that_is_cross_fitted_says_so():
    with pytest.raises(ParameterError, match=r"Chain\(cross_fit=...\) needs all rows at once"):
        fit(Chain([TemperatureScaling(), IsotonicCalibration()], cross_fit=5), table_of(*rows(10)), **LOGITS)


def test_splitters_need_rows_in_memory():
    from sklearn.model_selection import KFold

    method = registry.make("matrix-l2").set_params(cv=KFold(3))
    with pytest.raises(ParameterError, match="cv must be a number of folds"):
        fit(method, table_of(*rows(600)), **LOGITS)


def test_a_fit_that_fails_leaves_nothing(tmp_path):
    logits, labels = rows(300)
    fitted = TemperatureScaling().fit(given(logits), labels)
    paths = written(tmp_path, tables_of(logits, labels, [100, 200]))
    first = fit(fitted, paths, **LOGITS).temperature_

    class Breaks(InProcess):
        def __init__(self, *given):
            super().__init__(*given)
            self.n_passes = 0

        def partials(self, task):
            self.n_passes += 1
            if self.n_passes > 2:
                raise PartitionError("a partition is lost.")
            return super().partials(task)

    table = table_of(logits, labels)
    with pytest.raises(PartitionError, match="is lost"):
        _fitted_on(Breaks(table.schema, [TableRows(table, "a table")]), fitted)
    assert first > 0
    assert not hasattr(fitted, "temperature_")


# Bad input


def bad(tmp_path, change):
    logits, labels = rows(300)
    tables = tables_of(logits, labels, [100, 200])
    tables[1] = change(tables[1])
    return written(tmp_path, tables, row_group_size=30)


def with_value(table, name, row, value):
    values = table[name].to_pylist()
    values[row] = value
    return table.set_column(table.schema.get_field_index(name), name, [values])


@pytest.mark.parametrize("value", [np.nan, np.inf, None])
def test_a_score_that_is_no_number(tmp_path, value):
    paths = bad(tmp_path, lambda table: with_value(table, "p_2", 41, value))
    with pytest.raises(ValueError, match=r"part-1.parquet, row 42: .*'p_2'.*; remove or repair the row\.$"):
        fit(TemperatureScaling(), paths, **LOGITS)


def test_probabilities_that_do_not_sum_to_one():
    table = pa.table({"p_0": [0.5, 0.5, 0.7], "p_1": [0.5, 0.5, 0.5], "y": [0, 1, 1]})
    with pytest.raises(ValueError, match=r"the table, row 3: probabilities sum to 1.2 and not to 1"):
        fit(TemperatureScaling(), table, label="y", columns="p_*", space="probabilities")
    negative = pa.table({"p_0": [0.5, 1.5], "p_1": [0.5, -0.5], "y": [0, 1]})
    with pytest.raises(
        ValueError, match=r"the table, row 2: probability in column 'p_1' is out of range: -0.5"
    ):
        fit(TemperatureScaling(), negative, label="y", columns="p_*", space="probabilities")


def test_an_unknown_label(tmp_path):
    paths = bad(tmp_path, lambda table: with_value(table, "y", 64, 9))
    with pytest.raises(LabelError, match=r"the rarest label, 9, is first in .*part-1.parquet, row 65\.$"):
        fit(TemperatureScaling(), paths, **LOGITS)
    with pytest.raises(
        LabelError, match=r"part-1.parquet, row 65: the label 9 is not among the classes 0, 1, 2, 3"
    ):
        fit(TemperatureScaling(), paths, classes=[0, 1, 2, 3], **LOGITS)


def test_a_row_without_a_label(tmp_path):
    paths = bad(tmp_path, lambda table: with_value(table, "y", 7, None))
    with pytest.raises(LabelError, match=r"part-1.parquet, row 8: there is no label"):
        fit(TemperatureScaling(), paths, **LOGITS)


def test_a_file_without_one_of_the_columns(tmp_path):
    paths = bad(tmp_path, lambda table: table.drop_columns(["p_3"]))
    with pytest.raises(
        ValueError, match=r"part-1.parquet has no column 'p_3', but only 'p_0', 'p_1', 'p_2', 'y'"
    ):
        fit(TemperatureScaling(), paths, **LOGITS)


def test_a_file_with_text_as_scores(tmp_path):
    def change(table):
        return table.set_column(3, "p_3", [[str(value) for value in table["p_3"].to_pylist()]])

    with pytest.raises(ValueError, match=r"part-1.parquet has string in the score column 'p_3'"):
        fit(TemperatureScaling(), bad(tmp_path, change), **LOGITS)


def test_a_weight_below_zero():
    logits, labels = rows(20)
    table = table_of(logits, labels, np.where(np.arange(20) == 4, -1.0, 1.0))
    with pytest.raises(ValueError, match=r"the table, row 5: the weight -1.0"):
        fit(TemperatureScaling(), table, sample_weight="w", **LOGITS)


def test_a_file_that_is_lost(tmp_path):
    logits, labels = rows(300)
    paths = written(tmp_path, tables_of(logits, labels, [100, 200]))
    data = ds.dataset(paths)
    (tmp_path / "part-1.parquet").unlink()
    with pytest.raises(PartitionError, match=r"part-1.parquet cannot be read \(.*\); restore it"):
        fit(TemperatureScaling(), data, **LOGITS)
    with pytest.raises(PartitionError, match=r"part-1.parquet is not there; correct the path"):
        fit(TemperatureScaling(), paths, **LOGITS)


def test_a_column_of_row_numbers_is_no_label():
    logits, _ = rows(2000)
    with pytest.raises(LabelError, match="'y' is not the column of labels"):
        fit(TemperatureScaling(), table_of(logits, np.arange(2000)), **LOGITS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": "q_*"}, "no column matches"),
        ({"label": "z"}, "there is no column 'z'"),
        ({"space": "odds"}, "space must be"),
        ({"engine": "mpi"}, "engine must be"),
        ({"columns": ["p_0", "p_0"]}, "columns must be different"),
    ],
)
def test_wrong_arguments(change, message):
    with pytest.raises(ParameterError, match=message):
        fit(TemperatureScaling(), table_of(*rows(20)), **{**LOGITS, **change})


def test_what_is_no_frame():
    with pytest.raises(ParameterError, match="not int"):
        fit(TemperatureScaling(), 3, **LOGITS)


def test_a_sum_in_a_tree_keeps_few_parts():
    """Strings show the order; of 13 parts never more than four are open."""
    tree: TreeSum[str] = TreeSum()
    for letter in "abcdefghijklm":
        tree.add(letter)
        assert len(tree._open) <= 4
    tree.add(None)
    assert tree.total() == "abcdefghijklm"
