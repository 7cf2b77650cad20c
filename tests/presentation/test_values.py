"""Numbers, percentages, p-values, durations and intervals as text."""

from math import inf, isclose, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.presentation import (
    PLAIN,
    TYPOGRAPHIC,
    Range,
    Value,
    count,
    decimals,
    duration,
    has_value,
    in_points,
    number,
    p_value,
    percent,
    points,
    significant,
)
from calibrant.presentation.values import FORMATS

finite = st.floats(-1e12, 1e12)


def read(text):
    """Return the number that a plain text shows."""
    return float(text.replace(",", "").replace("%", "").strip())


@given(value=finite, digits=st.integers(0, 8))
def test_fixed_decimals_are_off_by_at_most_half_a_unit(value, digits):
    text = decimals(value, digits)
    assert abs(read(text) - value) <= 0.5 * 10**-digits + 1e-9 * abs(value)
    assert not text.startswith("-") or read(text) < 0


@given(value=finite)
def test_a_number_has_four_significant_digits_or_four_decimals(value):
    shown = read(number(value, tiny=False))
    assert abs(shown - value) <= max(0.5e-4, 0.5e-3 * abs(value)) + 1e-9


@given(value=finite)
def test_a_tiny_number_keeps_its_size(value):
    if value:
        assert isclose(read(number(value)), value, rel_tol=0.51)


@given(value=finite, digits=st.integers(1, 6))
def test_significant_digits_are_those_of_the_number(value, digits):
    shown = read(significant(value, digits))
    assert abs(shown - value) <= max(0.5 * 10.0 ** (1 - digits) * abs(value), 0.5e-4) + 1e-9


@given(proportion=st.floats(0, 1))
def test_a_percentage_rounds_to_neither_end_unless_it_is_one(proportion):
    text = percent(proportion)
    if 1e-6 <= proportion <= 1 - 1e-6:
        assert 0 < read(text) < 100
    if proportion in (0, 1):
        assert read(text) == 100 * proportion


@given(value=st.floats(0, 1), level=st.sampled_from([0.01, 0.05, 0.1]))
def test_a_p_value_is_shown_on_its_side_of_the_level(value, level):
    text = p_value(value, level=level)
    if not text.startswith("<"):
        assert (float(text) <= level) == (value <= level)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("value", [None, nan, inf, -inf])
def test_missing_and_infinite_numbers_are_shown_in_the_characters_of_the_style(kind, value):
    if kind in ("p-value", "duration") and value == -inf:
        return
    plain, typographic = (
        Value(value, kind, signed=False if kind == "points" else None).text(style)
        for style in (PLAIN, TYPOGRAPHIC)
    )
    if value is None or value != value:
        assert (plain, typographic) == ("-", "–")
    else:
        assert (plain, typographic) == (("inf", "∞") if value > 0 else ("-inf", "−∞"))
    assert not has_value(value)


@given(
    value=finite, kind=st.sampled_from(["number", "decimals", "significant", "percent", "points", "count"])
)
def test_plain_text_is_ascii_and_styles_differ_by_characters_only(value, kind):
    plain, typographic = (Value(value, kind).text(style) for style in (PLAIN, TYPOGRAPHIC))
    assert plain.isascii()
    if "e" not in plain:
        assert typographic.replace("−", "-").replace("\N{NO-BREAK SPACE}", " ") == plain


def test_negative_zero_has_no_sign():
    assert [form(-0.0) for form in (number, decimals, significant, count)] == ["0.0000", "0.0000", "0", "0"]
    assert percent(-0.0) == "0.0 %"
    assert points(-1e-9) == "0.0000"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "200 ms"), (1.0, "1.0 s"), (59.94, "59.9 s"), (59.96, "1 min"), (3600, "1 h"), (3599.6, "1 h")],
)
def test_durations_carry_over_to_the_larger_unit(seconds, text):
    assert duration(seconds) == text


def test_a_range_with_signs_has_no_dash():
    assert Range(0.1, 0.2, "decimals", 1).text(TYPOGRAPHIC) == "0.1–0.2"
    assert Range(-0.1, 0.2, "decimals", 1).text(TYPOGRAPHIC) == "−0.1 to 0.2"
    assert Range(0.1, 0.2, "points", signed=True).text(TYPOGRAPHIC) == "+10.00 to +20.00"


def test_one_percentage_point_is_singular():
    assert in_points(0.01) == "1 point"
    assert in_points(0.011) == "1.1 points"
