"""Tables and documents in all formats: complete, escaped and aligned."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from html.parser import HTMLParser
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.errors import FileFormatError
from calibrant.presentation import (
    Bullets,
    Cell,
    Column,
    Document,
    Facts,
    Figure,
    Markup,
    OnPage,
    Paragraph,
    Range,
    Section,
    SideBySide,
    Table,
    Tag,
    Value,
    as_html,
    as_json,
    as_latex,
    as_markdown,
    as_text,
    element,
    from_plain,
    in_one_line,
    latex,
    markdown,
    page,
    to_plain,
)
from calibrant.presentation.text import display_width, table_lines

TABLE = Table(
    "losses",
    "Losses by method",
    (Column("Method", is_numeric=False), Column("Log-loss", hint="lower is better"), Column("Change")),
    (
        (Cell("uncalibrated"), Cell(Value(0.51234)), Cell()),
        (
            Cell("platt|beta"),
            Cell(Value(0.41234), is_best=True),
            Cell(Value(-0.1, signed=True), (Range(-0.2, -0.05, signed=True),), Tag("better", "better", "✓")),
        ),
    ),
    footer=((Cell("mean"), Cell(Value(0.46234)), Cell()),),
    definitions=(("Log-loss", "mean of -log p."),),
    notes=("On 100 rows.",),
)
DOCUMENT = Document(
    "Report <1>",
    (
        Section(
            "first",
            "Losses",
            (
                Paragraph("Read this.", "lead"),
                TABLE,
                Bullets((Paragraph("be careful.", opening="Warning:"),)),
                Facts((("rows", "100"),), "Data"),
            ),
            source="Table 1",
        ),
        Section(
            "second",
            "Figures",
            (
                SideBySide((Figure("f", "Curve", element("svg"), TABLE, "A note."),)),
                OnPage(element("form"), (Paragraph("No form here."),)),
            ),
        ),
    ),
)
anything = st.text(max_size=30)


class Reader(HTMLParser):
    """Elements and text of a fragment, whose tags must match."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in ("meta", "input", "br", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):  # noqa: ARG002
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def named(name):
    return Table(name, name, (Column(name, is_numeric=False),), ((Cell(name, (name,), Tag("x", name)),),))


def test_every_format_has_all_words_and_numbers():
    for text in (as_text(DOCUMENT), as_markdown(DOCUMENT), "".join(Reader(as_html(DOCUMENT)).texts)):
        for word in (
            "Losses",
            "Read this.",
            "0.5123",
            "be careful.",
            "rows",
            "100",
            "uncalibrated",
            "better",
        ):
            assert word in text
    for text in (as_text(DOCUMENT), as_markdown(DOCUMENT)):
        assert "-0.1000 (-0.2000 to -0.0500), better" in text
        assert "No form here." in text


def test_a_page_has_typographic_signs_and_a_symbol_before_the_tag():
    text = "".join(Reader(as_html(TABLE)).texts)
    assert "−0.1000" in text
    assert "✓ better" in text


@given(name=anything)
def test_names_are_only_text_in_html(name):
    reader = Reader(as_html(named(name)))
    assert set(reader.tags) <= {
        "div",
        "table",
        "caption",
        "span",
        "thead",
        "tr",
        "th",
        "tbody",
        "bdi",
        "small",
    }
    if name.strip() and "\r" not in name:
        assert name in reader.texts


@given(name=anything)
def test_names_are_only_text_in_markdown(name):
    """By the tables of CommonMark: unescaped bars separate cells, and a cell is on one line."""
    lines = as_markdown(named(name)).splitlines()
    assert len(lines) == 3
    assert all(len(re.findall(r"(?<!\\)\|", line.replace(r"\\", ""))) == 2 for line in lines)
    assert "<" not in lines[2]


@given(name=anything)
def test_names_are_only_text_in_a_terminal(name):
    text = as_text(named(name))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


@given(name=anything)
def test_names_cannot_run_commands_in_latex(name):
    """Every backslash starts an escape that we write, braces are balanced, and no special character is bare."""
    text = latex.escaped(name)
    rest = text
    for written in sorted(set(latex.SPECIAL.values()), key=len, reverse=True):
        rest = rest.replace(written, "")
    assert not set(rest) & set("\\{}%&#$_^~")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\n# two", r"one \# two"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("-0.5 (+2 %)", "-0.5 (+2 %)"),
        ("[a](b)", r"\[a\](b)"),
        ("<b> & `c`", r"&lt;b&gt; &amp; \`c\`"),
        ("{role}", r"\{role\}"),
    ],
)
def test_markdown_shows_escaped_text_as_it_is(text, shown):
    assert markdown.escaped(text) == shown


@given(
    cells=st.lists(st.tuples(anything, st.sampled_from(["0.5", "-12.25", ""])), min_size=1, max_size=5),
    width=st.integers(30, 100),
)
def test_a_table_keeps_to_the_width_and_loses_no_character(cells, width):
    lines = table_lines(["name", "loss"], cells, [False, True], width)
    assert all(display_width(line) <= width for line in lines)
    written = "".join("".join(lines).split())
    for name, number in cells:
        assert number in written
        if display_width(in_one_line(name)) < 10:
            assert "".join(in_one_line(name).split()) in written


def test_numbers_line_up_on_the_right():
    lines = table_lines(["m", "loss"], [["a", "0.5"], ["猫", "10.25"]], [False, True])
    assert [display_width(line) for line in lines[2:]] == [9, 9]


def test_markdown_tables_line_up_and_mark_the_best():
    lines = [line for line in as_markdown(TABLE).splitlines() if line.startswith("|")]
    assert len({len(line) for line in lines}) == 1
    assert "**0.4123**" in lines[3]
    assert r"platt\|beta" in lines[3]


def test_latex_has_booktabs_rules_and_a_footer():
    text = as_latex(TABLE)
    assert text.count(r"\midrule") == 2
    assert r"\textbf{0.4123}" in text
    assert r"platt\textbar{}beta" in text
    assert r"$-$0.1000 ($-$0.2000 to $-$0.0500), better" in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
def test_latex_compiles(tmp_path):
    hostile = named("[*] \\end{table} %& --- 50 % ~^ {")
    body = as_latex(TABLE) + as_latex(hostile)
    packages = r"\usepackage[T1]{fontenc}\usepackage{booktabs}"
    source = rf"\documentclass{{article}}{packages}\begin{{document}}{body}\end{{document}}"
    (tmp_path / "t.tex").write_text(source, encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=batchmode", "t.tex"]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0


def test_a_page_loads_nothing_and_allows_only_its_own_style_and_script():
    text = page("A & B", element("body", as_html(DOCUMENT)), script="let a = 1 < 2;")
    policy = next(
        value for name, value in Reader(text).attributes if name == "content" and "default-src" in value
    )
    assert policy.startswith("default-src 'none'")
    assert policy.count("sha256-") == 2
    assert "<script>let a = 1 < 2;</script></body>" in text
    assert "script-src" not in page("", element("body"))


def test_elements_are_closed_as_html_wants_it():
    assert element("td") == "<td></td>"
    assert element("path", d="M0 0") == '<path d="M0 0"/>'
    assert element("input", hidden=True, value=None) == "<input hidden>"
    assert element("p", Markup("<br>"), "<br>") == "<p><br>&lt;br&gt;</p>"


def test_records_have_full_precision():
    assert TABLE.records()[1]["Log-loss (lower is better)"] == 0.41234
    assert TABLE.records()[0]["Change"] == ""


@dataclass(frozen=True)
class Inner:
    low: float
    names: tuple[str, ...]


@dataclass(frozen=True)
class Outer:
    inner: Inner
    count: int
    by_name: dict[str, float]
    missing: float | None = None


@given(
    low=st.floats(allow_nan=False),
    names=st.lists(anything).map(tuple),
    number=st.integers(-(2**53), 2**53),
    missing=st.none() | st.floats(allow_nan=False),
)
def test_plain_data_and_json_give_the_result_back(low, names, number, missing):
    given = Outer(Inner(low, names), number, {"a": low}, missing)
    assert from_plain(Outer, to_plain(given)) == given
    assert from_plain(Outer, json.loads(as_json(given))) == given


def test_arrays_and_numpy_scalars_become_lists_and_numbers():
    plain = to_plain({"a": np.array([1.0, nan]), "n": np.int64(3), "x": np.float32(0.5)}, nan_is_null=True)
    assert plain == {"a": [1.0, None], "n": 3, "x": 0.5}
    assert type(plain["n"]) is int
    assert to_plain([inf, -inf, nan], strict=True) == ["Infinity", "-Infinity", "NaN"]


def test_wrong_plain_data_are_rejected_with_the_place():
    with pytest.raises(FileFormatError, match=r"report.inner.low must be a number, but is 'x'"):
        from_plain(Outer, {"inner": {"low": "x", "names": []}, "count": 1, "by_name": {}})
