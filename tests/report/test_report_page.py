"""The page as text: complete, valid, self-contained, and safe for any class names."""

import json
import re
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser

import pytest
from sample_assessment import HOSTILE, sample_assessment

from calibrant.presentation import Paragraph, Section
from calibrant.report import SECTIONS as REPORT_SECTIONS
from calibrant.report.contents import Estimate
from calibrant.report.document import report_page
from calibrant.report.sections.reliability import reliability_chart

VOID = {"meta", "input", "br", "link", "img", "hr"}
SECTIONS = (
    "verdict", "recommendation", "reliability", "scores", "errors", "decomposition", "tests", "classes",
    "cumulative", "bins", "methods", "learning", "example", "pitfalls", "data", "repeat", "terms",
)  # fmt: skip


class Reader(HTMLParser):
    """Tags, identifiers, attributes and visible text of a page; elements must close in order."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.identifiers, self.references, self.text, self.attributes = (
            [],
            [],
            [],
            [],
            [],
            [],
        )
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        self.tags.append(tag)
        for name, value in attributes:
            self.attributes.append((tag, name, value))
            if name == "id":
                self.identifiers.append(value)
            if name in ("for", "aria-labelledby", "aria-controls") or (
                name == "href" and value.startswith("#")
            ):
                self.references.append(value.removeprefix("#"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)


@pytest.fixture(scope="module")
def assessments():
    return {
        "two": sample_assessment(2, status="calibrated"),
        "ten": sample_assessment(10),
        "thousand": sample_assessment(1000, status="unclear"),
        "hostile": sample_assessment(10, names=HOSTILE, infinite=True),
    }


@pytest.fixture(scope="module")
def pages(assessments):
    return {name: report_page(assessment) for name, assessment in assessments.items()}


every_page = pytest.mark.parametrize("name", ["two", "ten", "thousand", "hostile"])


@every_page
def test_every_element_closes_and_every_identifier_is_unique_and_found(pages, name):
    reader = Reader(pages[name])
    assert len(reader.identifiers) == len(set(reader.identifiers))
    assert all(reader.identifiers)
    assert set(reader.references) <= set(reader.identifiers)


@every_page
def test_every_section_is_there_and_in_the_list_of_contents(pages, name):
    reader = Reader(pages[name])
    # No form has a thousand fields.
    sections = [section for section in SECTIONS if section != "example" or name != "thousand"]
    assert [identifier for identifier in reader.identifiers if identifier in SECTIONS] == sections
    assert set(sections[2:]) <= set(reader.references)
    assert reader.tags.count("h1") == 1


@every_page
def test_nothing_comes_from_outside(pages, name):
    """No address to load anything from: no src, no link, no url() but of the page's own hatches, no import."""
    page = pages[name]
    reader = Reader(page)
    assert not {attribute for _, attribute, _ in reader.attributes} & {
        "src",
        "srcset",
        "action",
        "style",
        "xlink:href",
    }
    assert not {"link", "img", "iframe", "object", "base", "image", "use"} & set(reader.tags)
    assert all(value.startswith("#") for _, attribute, value in reader.attributes if attribute == "href")
    assert not re.search(r"https?://", page)
    assert set(re.findall(r"url\(([^)]*)\)", page)) == {"#hatch-over", "#hatch-under"}
    assert "@import" not in page


@every_page
def test_the_security_policy_names_the_style_and_the_script_and_nothing_else(pages, name):
    contents = [value for _, attribute, value in Reader(pages[name]).attributes if attribute == "content"]
    policy = next(value for value in contents if value.startswith("default"))
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert re.search(r"script-src 'sha256-[\w+/=]+'", policy)


@every_page
def test_no_value_is_written_as_a_computer_would(pages, name):
    text = " ".join(Reader(pages[name]).text)
    assert not re.search(r"\b(None|nan|NaN|inf|Infinity|undefined|Markup)\b", text)
    assert not re.search(r"\d\.\d{7,}", text)


def test_the_file_stays_small(pages):
    """The limit is 10 MB for a thousand classes; it should stay far below."""
    assert len(pages["ten"].encode()) < 1_000_000
    assert len(pages["thousand"].encode()) < 2_500_000


def test_hostile_names_are_text(pages):
    page = pages["hostile"]
    reader = Reader(page)
    assert page.count("<script>") == 1
    assert reader.tags.count("script") == 1
    assert "<img" not in page
    assert not [attribute for _, attribute, _ in reader.attributes if attribute.startswith("on")]
    text = "".join(reader.text)
    assert HOSTILE[0] in text
    assert HOSTILE[1] in text
    assert HOSTILE[6] in text, "a template within a name is not run"


def test_a_hostile_title_is_text():
    page = report_page(replace(sample_assessment(2), title="</title><script>alert(1)</script>"))
    assert Reader(page).tags.count("script") == 1


def test_infinite_losses_are_shown_and_explained(pages):
    text = "".join(Reader(pages["hostile"]).text)
    assert "∞" in text
    assert "the true class of at least one row had probability exactly zero" in text


def test_all_classes_are_in_the_page(pages, assessments):
    text = "".join(Reader(pages["thousand"]).text)
    assert all(row.label in text for row in assessments["thousand"].classes)


def test_every_chart_has_a_name_and_a_description(pages):
    charts = re.findall(r'<svg class="chart[^>]*>(.*?)</svg>', pages["ten"], re.DOTALL)
    assert len(charts) > 30
    assert all(re.match(r"<title>[^<]+</title><desc>[^<]+</desc>", chart) for chart in charts)


def test_every_bin_says_its_count(assessments):
    curve = assessments["ten"].curves[0]
    picture = reliability_chart(curve)
    for rows in curve.count:
        assert not rows or f"{rows:,} row" in picture


def test_every_table_has_a_caption_and_heads_with_a_scope(pages):
    reader = Reader(pages["ten"])
    assert reader.tags.count("table") == reader.tags.count("caption")
    heads = reader.tags.count("th")
    assert sum(name == "scope" for tag, name, _ in reader.attributes if tag == "th") == heads


@pytest.mark.parametrize("status", ["calibrated", "miscalibrated", "unclear"])
def test_the_status_is_learning_sentence(status):
    words = {"calibrated": "Calibrated", "miscalibrated": "Not calibrated", "unclear": "Unclear"}[status]
    page = report_page(sample_assessment(2, status=status))
    assert re.search(rf'<p class="status">{words}', page)


def test_the_banner_does_not_say_the_status_twice():
    sample = sample_assessment(2)
    verdict = replace(sample.verdict, headline="Not calibrated: they promise too much.")
    page = report_page(replace(sample, verdict=verdict))
    assert '<p class="status">Not calibrated</p>' in page
    assert '<p class="headline">They promise too much.</p>' in page


def test_parts_that_are_empty_are_left_out():
    sample = sample_assessment(3)
    bare = replace(
        sample,
        scores=(), errors=(), decompositions=(), slopes=(), tests=(), classes=(), curves=(), cumulative=(),
        bin_sensitivity=(), learning=None, pitfalls=(), example=None,
        recommendation=replace(sample.recommendation, methods=(), gain=None, accuracy_change=None),
    )  # fmt: skip
    reader = Reader(report_page(bare))
    found = [identifier for identifier in reader.identifiers if identifier in SECTIONS]
    assert found == ["verdict", "recommendation", "data", "repeat", "terms"]
    assert set(reader.references) <= set(reader.identifiers)


def test_a_single_row_in_a_single_bin_is_drawn():
    """One vertex, an interval from 0 to 1, a histogram with one bar."""
    sample = sample_assessment(2).curves[0]
    nothing = (None,) * 14
    curve = replace(
        sample,
        n_rows=1, count=(1,) + (0,) * 14, mean_score=(0.05, *nothing), mean_outcome=(0.0, *nothing), low=(0.0, *nothing),
        high=(0.975, *nothing), consistency_low=(None, *nothing), consistency_high=(None, *nothing), small=(True,) * 15,
        isotonic_score=(0.05,), isotonic_outcome=(0.0,), band_score=(), band_low=(), band_high=(),
        histogram_count=(0, 0, 1) + (0,) * 47,
    )  # fmt: skip
    picture = reliability_chart(curve)
    assert picture.count('class="bin small"') == 1
    assert "1 row, 100.0" in picture


def without_numbers(value, key=""):
    """Return the same with every number gone that has the right to be: those of estimates, and those in tuples."""
    if isinstance(value, Estimate):
        return replace(value, value=None, low=None, high=None, definition="")
    if isinstance(value, tuple):
        keep = key in ("edges", "histogram_edges", "n_bins", "sizes", "class_counts")
        return (
            value
            if keep
            else tuple(None if isinstance(one, float) else without_numbers(one) for one in value)
        )
    if is_dataclass(value):
        return replace(
            value, **{one.name: without_numbers(getattr(value, one.name), one.name) for one in fields(value)}
        )
    return value


def test_a_page_of_missing_numbers_is_a_page(assessments):
    page = report_page(without_numbers(assessments["ten"]))
    text = " ".join(Reader(page).text)
    assert "None" not in text
    assert "–" in text


@pytest.mark.parametrize("name", ["ten", "hostile"])
def test_markdown_has_the_titles_of_the_page(pages, assessments, name):
    titles = re.findall(r'<h2 id="[\w-]+">([^<]+)</h2>', pages[name])
    assert len(titles) >= len(SECTIONS)
    lines = assessments[name].to_markdown().splitlines()
    assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == titles


def test_own_sections_are_in_the_page_and_in_its_contents(assessments):
    def own(assessment):
        return Section("own", "Own <section>", (Paragraph(f"{assessment.data.n_rows} rows."),))

    def nothing(assessment):
        return None

    assessment = assessments["two"]
    sections = [*REPORT_SECTIONS, own, nothing]
    reader = Reader(assessment.to_html(sections=sections))
    assert reader.identifiers.count("own") == 1
    assert "own" in reader.references
    assert "Own <section>" in reader.text
    assert assessment.to_markdown(sections=sections).endswith(
        f"## Own &lt;section&gt;\n\n{assessment.data.n_rows} rows.\n"
    )


def test_a_reader_can_try_the_recommended_calibrator():
    """The graph on the page gives what the page shows; without one there is neither a section nor an interpreter."""
    assessment = sample_assessment(3)
    page = report_page(assessment)
    (graph,) = [value for _, name, value in Reader(page).attributes if name == "data-graph"]
    content = json.loads(graph)
    assert content["format"] == "calibrant graph"
    assert content["classes"] == list(assessment.data.classes)
    assert "globalThis.calibrant" in page
    without = report_page(replace(assessment, example=None))
    assert "data-graph" not in without
    assert "calibrant graph" not in without
    assert len(page) - len(without) < 40_000
