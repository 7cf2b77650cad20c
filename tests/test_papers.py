"""The list of what the papers contain is complete, and everything that it names exists."""

import csv
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def listed(monkeypatch):
    """The module that reads the list."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    return import_module("paper_items")


def test_every_table_and_figure_is_listed_once(listed):
    for paper in listed.papers():
        for kind in ("table", "figure"):
            names = [item.name for item in listed.items() if (item.paper, item.kind) == (paper["key"], kind)]
            assert names == paper[f"{kind}s"], (paper["key"], kind)


def test_everything_that_is_named_exists(listed):
    absent = [
        (item.paper, item.name, f"{each.kind}:{each.name}")
        for item in listed.items()
        for each in item.here
        if not each.exists()
    ]
    assert not absent, f"docs/papers.toml names things that do not exist: {absent}."


def test_every_item_has_a_kind_a_result_and_words(listed):
    for item in listed.items():
        assert item.kind in listed.KINDS
        assert item.result in listed.RESULTS
        assert item.closeness()
        assert item.here or item.result == "no data"
        if item.result in ("within", "inputs not obtainable"):
            assert item.note


def test_figures_with_data_have_a_picture(listed):
    for item in listed.items():
        if item.kind == "figure" and item.result != "no data":
            assert any(each.pictures() or each.kind == "gallery" for each in item.here), (
                item.paper,
                item.name,
            )


def test_closeness_counts_numbers_that_agree_to_the_printed_digits(listed, tmp_path):
    """Of 1.004 / 1.00, 2.010 / 2.00 and 3.3 / 3.00 one agrees; the median difference is 0.01."""
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["data", "ours", "paper"])
        writer.writerows(
            [["a", 1.004, "1.00"], ["b", 2.010, "2.00"], ["c", 3.3, "3.00"], ["average rank", 9, "1.00"]]
        )
    assert listed.closeness(path, "b") == ("0 of 1 numbers to the digit; within 0.01 for all")
    assert listed.closeness(path, "d") == ""
    assert (
        listed.closeness(path)
        == "1 of 3 numbers to the digit; within 0.01 for half of them and within 0.3 for all"
    )


@pytest.mark.parametrize(
    "text",
    [
        "method:nothing",
        "metric:nothing",
        "api:calibrant.nothing",
        "table:kull2019-uci/nothing",
        "column:kull2019-networks/table-13/nothing",
        "other:thing",
    ],
)
def test_unknown_references_are_found(listed, text):
    assert not listed.Reference.parse(text).exists()
