"""Format numbers, percentages, p-values, counts, durations and intervals."""

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, isfinite, isnan, log10
from typing import Any, Literal, TypeGuard

__all__ = [
    "PLAIN",
    "TYPOGRAPHIC",
    "Range",
    "Style",
    "Value",
    "count",
    "decimals",
    "duration",
    "has_value",
    "number",
    "p_value",
    "percent",
    "points",
    "significant",
    "value_range",
]


@dataclass(frozen=True)
class Style:
    """Characters in formatted values.

    Attributes
    ----------
    minus, infinity : str
    missing : str
        Stands for a missing value.
    space : str
        Space between a number and its unit.
    dash : str
        Joins the ends of an interval without signs; other intervals have "to".
    has_powers : bool
        Whether tiny numbers are written as powers of ten, not in E notation.
    """

    minus: str = "-"
    infinity: str = "inf"
    missing: str = "-"
    space: str = " "
    dash: str = " to "
    has_powers: bool = False


PLAIN = Style()
"""ASCII, for terminals, Markdown, messages and files."""

TYPOGRAPHIC = Style("−", "∞", "–", "\N{NO-BREAK SPACE}", "–", has_powers=True)
"""Typographic characters, for pages and papers."""

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SMALLEST_PERCENT = 0.0001
SMALLEST_P_VALUE = 0.001


def has_value(value: float | None) -> TypeGuard[float]:
    """Return whether there is a finite number."""
    return value is not None and isfinite(value)


def _special(value: float | None, signed: bool, style: Style) -> str:
    """Return the text of a missing or infinite number."""
    if value is None or isnan(value):
        return style.missing
    return f"{_sign(value, signed, style)}{style.infinity}"


def _sign(value: float, signed: bool, style: Style) -> str:
    return style.minus if value < 0 else "+" if signed and value > 0 else ""


def decimals(
    value: float | None, digits: int = 4, *, signed: bool = False, tiny: bool = False, style: Style = PLAIN
) -> str:
    """Format a number with a fixed number of decimals.

    Numbers that would be rounded to zero are written as zero without a sign, or with an exponent if ``tiny``.

    >>> decimals(0.123456), decimals(-2.5, 1, signed=True), decimals(float("inf")), decimals(None), decimals(12345.6, 1)
    ('0.1235', '-2.5', 'inf', '-', '12345.6')
    >>> decimals(-1e-9), decimals(1.2e-5, tiny=True), decimals(1.2e-5, tiny=True, style=TYPOGRAPHIC)
    ('0.0000', '1.2e-05', '1.2 × 10⁻⁵')
    """
    if not has_value(value):
        return _special(value, signed, style)
    size, sign = abs(value), _sign(value, signed, style)
    if tiny and 0 < size < 0.5 * 10**-digits:
        return f"{sign}{_with_power(f'{size:.1e}', style)}"
    text = f"{size:.{digits}f}"
    return f"{sign if float(text) else ''}{text}"


def _with_power(text: str, style: Style) -> str:
    """Return a number in E notation, with a power of ten if the style has them."""
    if "e" not in text or not style.has_powers:
        return text
    mantissa, exponent = text.split("e")
    return f"{mantissa} × 10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def number(
    value: float | None, digits: int = 4, *, signed: bool = False, tiny: bool = True, style: Style = PLAIN
) -> str:
    """Format a number for a table: at most ``digits`` decimals, fewer for larger numbers, with thousands separators.

    >>> number(0.123456), number(1.23456), number(12.3456), number(123.456), number(12345.6)
    ('0.1235', '1.235', '12.35', '123.5', '12,346')
    >>> number(-1.5, signed=True, style=TYPOGRAPHIC), number(2e-7, style=TYPOGRAPHIC), number(2e-7, tiny=False)
    ('−1.500', '2.0 × 10⁻⁷', '0.0000')
    """
    if not has_value(value) or abs(value) < 1:
        return decimals(value, digits, signed=signed, tiny=tiny, style=style)
    size = abs(value)
    n_decimals = max(digits - 1, 0) if size < 10 else 2 if size < 100 else 1 if size < 1000 else 0
    return f"{_sign(value, signed, style)}{size:,.{n_decimals}f}"


def significant(
    value: float | None, digits: int = 4, *, signed: bool = False, tiny: bool = False, style: Style = PLAIN
) -> str:
    """Format a number for a sentence: significant digits without trailing zeros.

    Tiny numbers are rounded to four decimals, unless ``tiny``.

    >>> significant(0.123456), significant(-2.0, signed=True), significant(0.03125, 2), significant(None)
    ('0.1235', '-2', '0.031', '-')
    >>> significant(9.975e-05), significant(-3e-9), significant(-0.0), significant(123456.0)
    ('0.0001', '0.0000', '0', '123,456')
    >>> significant(9.98e-04, 3, tiny=True), significant(9.7e-05, 3, tiny=True, style=TYPOGRAPHIC)
    ('0.000998', '9.7 × 10⁻⁵')
    """
    if not has_value(value):
        return _special(value, signed, style)
    size = abs(value)
    if 0 < size < 0.001 and not tiny:
        return decimals(value, 4, signed=signed, style=style)
    text = f"{size:.{digits}g}"
    if float(text) >= 10**digits:
        text = f"{size:,.0f}"
    return f"{_sign(value, signed, style)}{_with_power(text, style)}"


def count(value: float | None, *, style: Style = PLAIN) -> str:
    """Format a number of rows, or a total weight, with thousands separators.

    >>> count(1234567), count(12.5), count(None)
    ('1,234,567', '12.5', '-')
    """
    if not has_value(value):
        return _special(value, False, style)
    text = f"{abs(value):,.0f}" if value == round(value) else f"{abs(value):,.1f}"
    return f"{_sign(value, False, style)}{text}"


def _decimals_of_percent(proportion: float) -> int:
    """Return the decimals that show two significant digits of the distance of a proportion from 0 or 1.

    >>> _decimals_of_percent(0.25), _decimals_of_percent(0.0042), _decimals_of_percent(0.0)
    (0, 2, 0)
    """
    size = 100 * min(abs(proportion), abs(1 - abs(proportion)))
    return 1 - floor(log10(size)) if 0 < size < 1 else 0


def percent(value: float | None, digits: int = 1, *, signed: bool = False, style: Style = PLAIN) -> str:
    """Format a proportion in percent, with two significant digits near 0 and 1.

    >>> percent(0.12345), percent(1.0, 0), percent(0.00123), percent(0.99877), percent(1e-9), percent(-0.02, signed=True)
    ('12.3 %', '100 %', '0.12 %', '99.88 %', '< 0.0001 %', '-2.0 %')
    """
    if not has_value(value):
        return _special(value, signed, style)
    size = 100 * abs(value)
    if 0 < size < SMALLEST_PERCENT:
        sign = f">{style.space}{style.minus}" if value < 0 else f"<{style.space}"
        return f"{sign}{SMALLEST_PERCENT:.4f}{style.space}%"
    n_decimals = max(digits, _decimals_of_percent(value))
    return f"{_sign(value, signed, style)}{size:.{n_decimals}f}{style.space}%"


def points(value: float | None, digits: int = 2, *, signed: bool = True, style: Style = PLAIN) -> str:
    """Format a difference of proportions in percentage points, without the unit.

    >>> points(0.0123), points(-0.5), points(0.0), points(0.00042), points(0.0123, signed=False)
    ('+1.23', '-50.00', '0.00', '+0.042', '1.23')
    """
    if not has_value(value):
        return _special(value, signed, style)
    n_decimals = max(digits, min(_decimals_of_percent(value), 4))
    return decimals(100 * value, n_decimals, signed=signed, style=style)


def p_value(value: float | None, *, level: float | None = None, style: Style = PLAIN) -> str:
    """Format a p-value for a table: three decimals, or "< 0.001".

    With a significance ``level``, the text has two significant digits or more, so that it is on the same side of the level
    as the p-value.

    >>> p_value(0.04321), p_value(1e-9), p_value(None)
    ('0.043', '< 0.001', '-')
    >>> p_value(0.04996, level=0.05), p_value(0.0312, level=0.05), p_value(0.05, level=0.05), p_value(0.0, level=0.05)
    ('0.04996', '0.031', '0.05', '< 1e-300')
    """
    if not has_value(value):
        return _special(value, False, style)
    if level is not None:
        if value < SMALLEST_TAIL:
            return f"<{style.space}{SMALLEST_TAIL:g}"
        texts = (f"{value:.{digits}g}" for digits in range(2, 17))
        return next((text for text in texts if float(text) != level or value == level), f"{value!r}")
    return f"<{style.space}{SMALLEST_P_VALUE}" if value < SMALLEST_P_VALUE else f"{value:.3f}"


SMALLEST_TAIL = 1e-300
"""Close to the underflow of float64: below it, a tail probability of zero is only rounding."""


def duration(seconds: float | None, *, style: Style = PLAIN) -> str:
    """Format a duration in its two largest units.

    >>> duration(0.0012), duration(3.21), duration(75), duration(7500), duration(200000), duration(0)
    ('1 ms', '3.2 s', '1 min 15 s', '2 h 5 min', '2 d 7 h', '0 ms')
    """
    if not has_value(seconds):
        return _special(seconds, False, style)
    if seconds < 1:
        return f"{max(1000 * seconds, 1):.0f} ms" if seconds else "0 ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    rounded = round(seconds)
    units = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
    size, name, smaller, smaller_name = next(unit for unit in units if rounded >= unit[0])
    remainder = rounded % size // smaller
    return f"{rounded // size} {name}" + (f" {remainder} {smaller_name}" if remainder else "")


Kind = Literal["number", "decimals", "significant", "percent", "points", "count", "p-value", "duration"]

FORMATS: dict[str, Callable[..., str]] = {
    "number": number,
    "decimals": decimals,
    "significant": significant,
    "percent": percent,
    "points": points,
    "count": count,
    "p-value": p_value,
    "duration": duration,
}


@dataclass(frozen=True)
class Value:
    """A number and its format, for tables that are written in several styles.

    ``digits``, ``signed``, ``tiny`` and ``level`` are the options of the function of that kind; None is its default.

    >>> Value(0.1234, "percent").text(), Value(-0.5, signed=True).text(TYPOGRAPHIC)
    ('12.3 %', '−0.5000')
    """

    value: float | None
    kind: Kind = "number"
    digits: int | None = None
    signed: bool | None = None
    tiny: bool | None = None
    level: float | None = None

    def text(self, style: Style = PLAIN) -> str:
        """Return the formatted number."""
        given = {"digits": self.digits, "signed": self.signed, "tiny": self.tiny, "level": self.level}
        options: dict[str, Any] = {name: option for name, option in given.items() if option is not None}
        return FORMATS[self.kind](self.value, style=style, **options)


@dataclass(frozen=True)
class Range:
    """Confidence interval, or another range, whose ends have the same format; a one-sided range has one end.

    >>> Range(0.1, 0.3).text(), Range(-0.1, 0.3).text(TYPOGRAPHIC), Range(0.1, 0.3).text(TYPOGRAPHIC)
    ('0.1000 to 0.3000', '−0.1000 to 0.3000', '0.1000–0.3000')
    >>> Range(0.1, None).text(), Range(None, 0.3).text(), Range(None, None).text()
    ('at least 0.1000', 'at most 0.3000', '')
    """

    low: float | None
    high: float | None
    kind: Kind = "number"
    digits: int | None = None
    signed: bool | None = None
    tiny: bool | None = None

    def text(self, style: Style = PLAIN) -> str:
        """Return the formatted range; empty if both ends are missing."""
        low, high = (
            Value(end, self.kind, self.digits, self.signed, self.tiny).text(style)
            for end in (self.low, self.high)
        )
        if self.low is None:
            return "" if self.high is None else f"at most {high}"
        return f"at least {low}" if self.high is None else value_range(low, high, style)


def value_range(low: str, high: str, style: Style = PLAIN) -> str:
    """Return a range of two formatted numbers; with "to" if an end has a sign, which makes a dash hard to read.

    >>> value_range("0.1", "0.2", TYPOGRAPHIC), value_range("−0.1", "0.2", TYPOGRAPHIC)
    ('0.1–0.2', '−0.1 to 0.2')
    """
    return f"{low} to {high}" if {low[0], high[0]} & {"−", "-", "+"} else f"{low}{style.dash}{high}"
