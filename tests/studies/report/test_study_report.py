"""Reports: files, Markdown and the page say what there is, and the same results give the same bytes."""

import csv
import math
import re
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from types import SimpleNamespace

import pytest
from study_samples import crossed, sample

from calibrant.errors import ParameterError
from calibrant.studies.pictures.options import PictureOptions
from calibrant.studies.report import (
    contents_of,
    contents_of_failures,
    report_markdown,
    report_page,
    write_report,
)
from calibrant.studies.tables.options import TableOptions

HOSTILE = '<script>alert("1")</script> | *x* _y_ [z](http://a)'

TABLES = [
    {"name": "table-01", "title": "Log-loss", "source": "Table 1", "measure": "log_loss", "ranks": True},
    {"name": "table-02", "measure": "accuracy"},
]
PICTURES = [
    {"name": "figure-1", "title": "Against rows", "kind": "lines", "x": "rows", "measure": "log_loss"}
]


def small(tables=TABLES, pictures=PICTURES, names=("iris", "car"), **options):
    labels = [
        {"data": data, "rows": rows, "calibrator": calibrator}
        for data in names
        for rows in (50, 100)
        for calibrator in ("none", "beta")
    ]
    values = [{"log_loss": 1 / (k + 2), "accuracy": 0.5} for k in range(len(labels) - 1)]
    details = [{"classes": 3, "rows": 40, "calibration_rows": 20 + k} for k in range(len(labels))]
    return sample(labels, [*values, None], tables=tables, pictures=pictures, details=details, **options)


def test_what_is_written(tmp_path):
    pytest.importorskip("matplotlib")
    written = write_report(small(), tmp_path / "new" / "folder")
    names = sorted(str(path.relative_to(tmp_path / "new" / "folder")) for path in written)
    assert names == [
        "pictures/figure-1.csv",
        "pictures/figure-1.svg",
        "report.html",
        "report.md",
        "results.csv",
        "tables/table-01.csv",
        "tables/table-01.tex",
        "tables/table-02.csv",
        "tables/table-02.tex",
    ]
    text = (tmp_path / "new" / "folder" / "tables" / "table-01.tex").read_text()
    assert all(text.count(f"\\{rule}") == 1 for rule in ("toprule", "bottomrule", "caption"))
    with (tmp_path / "new" / "folder" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert rows[0]["log_loss"] == "0.5"
    assert rows[7]["message"] == "ValueError: no way."


def test_formats_can_be_chosen(tmp_path):
    assert [path.name for path in write_report(small(), tmp_path, ["html"])] == ["report.html"]
    with pytest.raises(ParameterError, match="'pdf'"):
        write_report(small(), tmp_path, ["pdf"])


def test_the_same_results_give_the_same_files(tmp_path):
    pytest.importorskip("matplotlib")
    first, second = write_report(small(), tmp_path / "a"), write_report(small(), tmp_path / "b")
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_markdown_says_what_was_run_and_what_failed():
    text = report_markdown(
        contents_of(small(absent=[("whales", "there is no file w.npz in /mine/data; get it.")]))
    )
    assert "- **done**: 7 of 8 units, 1 failed\n" in text
    assert re.search(r"^\| iris +\| +3 \| +20 to 23 \| +40 \| +4 of 4 \|$", text, re.MULTILINE)
    assert "- whales: no file w.npz\n" in text
    assert "/mine" not in text
    assert re.search(
        r"^\| 1 +\| failed \| data: car; rows: 100; calibrator: beta \| ValueError: no way\. \|$", text, re.M
    )
    assert "### Log-loss (Table 1)\n" in text
    assert "![Against rows](pictures/figure-1.svg)\n" in text or "Not drawn: matplotlib" in text


def test_what_failed_is_told_from_what_did_not():
    def where(failing, **levels):
        results = crossed(lambda **labels: math.nan if failing(**labels) else 1.0, **levels)
        return [failure.where for failure in contents_of_failures(results)]

    levels = {"trial": ["climbing"], "stride": [1, 2, 3], "seed": range(10)}
    assert where(lambda stride, seed, **_: stride == 3 and seed == 1, **levels) == [
        "trial: climbing; stride: 3; seed: 1"
    ]
    assert where(lambda stride, **_: stride == 3, **levels) == ["trial: climbing; stride: 3"]
    levels = {"data": ["a", "b"], "calibrator": ["x", "y"], "repeat": [0, 1], "fold": [0, 1, 2]}
    assert where(lambda data, fold, **_: data == "b" and fold == 2, **levels) == [
        "data: b; calibrator: x, y; repeat: 0, 1; fold: 2"
    ]


def test_headings_of_markdown_go_down_by_one_level_at_a_time():
    levels = [
        len(found[1]) for found in re.finditer(r"^(#+) ", report_markdown(contents_of(small())), re.MULTILINE)
    ]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_every_line_of_a_table_in_markdown_has_as_many_cells():
    results = small(names=("a|b", HOSTILE))
    text = report_markdown(contents_of(results))
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(counts) == 1, block


class Tags(HTMLParser):
    """Collects tags, and checks that each is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002
        self.seen.append(tag)
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):  # noqa: ARG002
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_whole_and_nothing_in_names_is_taken_for_markup():
    tags = Tags()
    tables = [{**TABLES[0], "title": HOSTILE, "note": HOSTILE}]
    tags.feed(report_page(contents_of(small(tables=tables, names=("iris", HOSTILE)))))
    assert not tags.open
    assert "script" not in tags.seen
    assert tags.text.count(HOSTILE) >= 3
    assert "http" not in "".join(tag for tag in tags.seen)


def test_the_page_needs_nothing_from_outside():
    page = report_page(contents_of(small()))
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert "default-src 'none'" in unescape(page)


def test_the_page_tells_when_runs_took_place_and_markdown_does_not():
    run = SimpleNamespace(
        started="2026-01-02T03:04:05+00:00", updated="2026-01-03T01:00:00+00:00", versions={"python": "3.12"},
        processors=16, study="sample",
    )  # fmt: skip
    contents = contents_of(small(), None, [run])
    assert "Run 2026-01-02 03:04 to 2026-01-03 01:00 UTC" in report_page(contents)
    text = report_markdown(contents)
    assert "2026" not in text
    assert "- **processors**: 16\n" in text
    assert "python 3.12" in text


def test_a_study_without_any_result_has_a_report():
    results = crossed(lambda **_: math.nan, data=["a"], calibrator=["x", "y"])
    results.recipe.tables = [TableOptions.parse(table) for table in TABLES]
    results.recipe.pictures = [PictureOptions.parse({**PICTURES[0], "x": "data"})]
    text = report_markdown(contents_of(results))
    assert r"– \[0 of 1\]" in text.replace("\N{NO-BREAK SPACE}", " ")
    assert "Not drawn: none of its units is finished." in text
    assert "[0 of 1]" in report_page(contents_of(results))


def test_what_no_unit_belongs_to_is_named_and_not_shown(tmp_path):
    tables = [
        *TABLES,
        {"name": "trials", "title": "Of trials", "measure": "final", "rows": "trial", "columns": "noise"},
    ]
    pictures = [*PICTURES, {"name": "series", "kind": "series", "trial": "t", "x": "x", "y": "y"}]
    results = small(tables=tables, pictures=pictures)
    contents = contents_of(results)
    assert len(contents.tables) == 2
    said = "Not shown because no unit belongs to it: Of trials; series."
    assert f"{said}\n" in report_markdown(contents)
    assert said in report_page(contents)
    names = [path.name for path in write_report(results, tmp_path)]
    assert "trials.csv" not in names
