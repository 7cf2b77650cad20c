"""Every section of the report: its place, its name, and what it shows; and sections with numbers of their own."""

import re
from dataclasses import dataclass

import numpy as np
import pytest

from calibrant.errors import FileFormatError
from calibrant.presentation import Document, Paragraph, Section, as_html, as_markdown, as_text
from calibrant.report import SECTIONS, Assessment, assess, sections

GENERATOR = np.random.default_rng(0)
P = GENERATOR.dirichlet(np.ones(3), 300)
Y = np.array([GENERATOR.choice(3, p=row) for row in P])

every_section = pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)


@pytest.fixture(scope="module")
def assessment():
    columns = {"site": np.where(np.arange(300) % 2, "north", "south")}
    return assess(Y, P, methods=["temperature"], cv=3, side_columns=columns, costs=1 - np.eye(3))


def test_places_and_names_are_unique():
    declared = sections._declared()
    assert len({each.place for each in declared}) == len({each.name for each in declared}) == len(SECTIONS)


@every_section
def test_a_section_has_words_in_every_form(section, assessment):
    found = section(assessment)
    if found is None:
        pytest.skip("nothing to show for these rows")
    assert found.title
    assert found.blocks
    for text in (as_html(found), as_markdown(Document("", (found,))), as_text(Document("", (found,)), 80)):
        assert found.title in text
        assert not re.search(r"\bNone\b(?! of)|object at 0x", text)


@dataclass(frozen=True)
class Mean:
    """A number that the assessment does not have."""

    confidence: float


def mean_confidence(rows, after, level, random_state) -> Mean | None:
    return Mean(float(rows.predictions.probabilities.max(axis=1).mean()))


@pytest.fixture
def confidence_section(monkeypatch):
    monkeypatch.setattr(sections, "DECLARED", [*sections.DECLARED])
    sections._declared.cache_clear()

    @sections.section_at(45, mean_confidence)
    def confidence_section(assessment):
        return Section(
            "confidence",
            "Confidence",
            (Paragraph(f"On average {assessment.further['confidence'].confidence:.3f}."),),
        )

    yield confidence_section
    sections._declared.cache_clear()


def test_a_section_measures_its_own_numbers_and_files_keep_them(confidence_section):
    found = assess(Y, P, methods=[])
    assert found.further["confidence"] == Mean(P.max(axis=1).mean())
    names = [section.__name__ for section in sections.sections()]
    assert names.index("confidence_section") == names.index("scores_section") + 1
    read = Assessment.from_json(found.to_json())
    assert read.further == found.further
    text = read.to_markdown(sections=[confidence_section])
    assert text.endswith(f"## Confidence\n\nOn average {P.max(axis=1).mean():.3f}.\n")


def test_numbers_of_an_unknown_section_are_an_error(assessment):
    text = assessment.to_json().replace('"schema": 1,', '"schema": 1, "further": {"moon": {}},')
    with pytest.raises(
        FileFormatError, match="numbers of a section 'moon', which this version does not have"
    ):
        Assessment.from_json(text)
    with pytest.raises(FileFormatError, match="further must be an object, but is 1"):
        Assessment.from_json(text.replace('{"moon": {}}', "1"))
