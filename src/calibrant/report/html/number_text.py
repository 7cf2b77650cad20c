"""Format numbers for readers: few digits, typographic minus signs, intervals, and a dash for missing values."""

from math import isfinite, isinf, isnan

from calibrant.report.contents import Estimate
from calibrant.report.plain import decimals_of_percent

__all__ = [
    "DASH",
    "count",
    "has_value",
    "interval",
    "number",
    "p_value",
    "percent",
    "plain_name",
    "points",
    "seconds",
    "sentence",
    "span",
]

DASH = "–"
MINUS = "−"
SMALLEST_PERCENT = 0.0001
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# Names of metrics for which replacing underscores is not enough.
NAMES = {
    "log_loss": "log-loss",
    "brier_score": "Brier score",
    "roc_auc": "area under the ROC curve",
    "confidence_ece": "confidence ECE",
    "confidence": "confidence ECE",
    "classwise": "classwise ECE",
    "classwise_ece": "classwise ECE",
}


def has_value(value: float | None) -> bool:
    """Return whether there is a finite number."""
    return value is not None and isfinite(value)


def number(value: float | None, *, signed: bool = False, digits: int = 4, tiny: bool = True) -> str:
    """Return a number with at most four decimals, fewer if it is large; `tiny` ones as powers of ten, else as zero.

    >>> number(0.123456), number(-1.5, signed=True), number(12345.0), number(2e-7), number(None), number(float("inf"))
    ('0.1235', '−1.500', '12,345', '2.0 × 10⁻⁷', '–', '∞')
    """
    if value is None or isnan(value):
        return DASH
    size = abs(value)
    sign = MINUS if value < 0 else "+" if signed and value > 0 else ""
    if isinf(value):
        return f"{sign}∞"
    if tiny and 0 < size < 0.5 * 10**-digits:
        mantissa, exponent = f"{size:.1e}".split("e")
        return f"{sign}{mantissa} × 10{str(int(exponent)).translate(SUPERSCRIPTS)}"
    decimals = (
        digits
        if size < 1
        else max(digits - 1, 0)
        if size < 10
        else 2
        if size < 100
        else 1
        if size < 1000
        else 0
    )
    return f"{sign if round(size, decimals) else ''}{size:,.{decimals}f}"


def percent(value: float | None, decimals: int = 1, *, signed: bool = False) -> str:
    r"""Return a proportion in percent.

    >>> percent(0.1234), percent(-0.02, signed=True), percent(None), percent(0.00012), percent(1e-9)
    ('12.3\xa0%', '−2.0\xa0%', '–', '0.012\xa0%', '< 0.0001\xa0%')
    """
    if value is None or isnan(value):
        return DASH
    size = 100 * abs(value)
    sign = MINUS if value < 0 else "+" if signed and value > 0 else ""
    if 0 < size < SMALLEST_PERCENT:
        return f"{'> −' if value < 0 else '< '}{SMALLEST_PERCENT:.4f}\N{NO-BREAK SPACE}%"
    decimals = max(decimals, min(decimals_of_percent(value), 4))
    return f"{sign}{size:.{decimals}f}\N{NO-BREAK SPACE}%"


def points(value: float | None, *, signed: bool = True) -> str:
    """Return a difference of proportions in percentage points, without the unit.

    >>> points(0.0123), points(-0.5), points(0.0), points(0.00042)
    ('+1.23', '−50.00', '0.00', '+0.042')
    """
    if value is None or isnan(value):
        return DASH
    decimals = max(2, min(decimals_of_percent(value), 4))
    rounded = round(100 * value, decimals)
    sign = MINUS if rounded < 0 else "+" if signed and rounded > 0 else ""
    return f"{sign}{abs(rounded):.{decimals}f}"


def count(value: float | None) -> str:
    """Return a number of rows, or a total weight.

    >>> count(1234567), count(12.5), count(None)
    ('1,234,567', '12.5', '–')
    """
    if value is None or isnan(value):
        return DASH
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def p_value(value: float | None) -> str:
    r"""Return a p-value, at least as "< 0.001".

    >>> p_value(0.04321), p_value(1e-9), p_value(None)
    ('0.043', '<\xa00.001', '–')
    """
    if value is None or isnan(value):
        return DASH
    return "<\N{NO-BREAK SPACE}0.001" if value < 0.001 else f"{value:.3f}"


def seconds(value: float | None) -> str:
    """Return a duration.

    >>> seconds(0.0012), seconds(3.21), seconds(125.0)
    ('1 ms', '3.2 s', '2 min 5 s')
    """
    if value is None or isnan(value):
        return DASH
    if value < 1:
        return f"{max(1000 * value, 1):.0f} ms" if value else "0 ms"
    return f"{value:.1f} s" if value < 60 else f"{value // 60:.0f} min {value % 60:.0f} s"


def interval(estimate: Estimate | None, *, in_points: bool = False, signed: bool = False) -> str:
    """Return the interval of an estimate, empty if it has none; with "to" if an end has a sign.

    >>> interval(Estimate("", 0.2, 0.1, 0.3)), interval(Estimate("", 0.2, -0.1, 0.3)), interval(Estimate("", 0.2))
    ('0.1000–0.3000', '−0.1000 to 0.3000', '')
    """
    if estimate is None or (estimate.low is None and estimate.high is None):
        return ""

    # An end that is tiny relative to the other is shown as zero.
    tiny = max(abs(end) for end in (estimate.value, estimate.low, estimate.high) if end is not None) < 0.001

    def write(value: float | None) -> str:
        return points(value, signed=signed) if in_points else number(value, signed=signed, tiny=tiny)

    if estimate.high is None:
        return f"at least {write(estimate.low)}"
    if estimate.low is None:
        return f"at most {write(estimate.high)}"
    return span(write(estimate.low), write(estimate.high))


def span(low: str, high: str) -> str:
    """Return a range of two formatted numbers; signs would make a dash hard to read.

    >>> span("0.1", "0.2"), span("−0.1", "0.2")
    ('0.1–0.2', '−0.1 to 0.2')
    """
    return f"{low} to {high}" if {low[0], high[0]} & {MINUS, "+"} else f"{low}{DASH}{high}"


def plain_name(name: str) -> str:
    """Return the name of a metric in words, capitalised.

    >>> plain_name("log_loss"), plain_name("top_label_ece"), plain_name("Accuracy")
    ('Log-loss', 'Top label ece', 'Accuracy')
    """
    words = NAMES.get(name, name.replace("_", " "))
    return words[:1].upper() + words[1:]


def sentence(text: str) -> str:
    """Return a phrase as a sentence, with a capital letter and a full stop; an empty text stays empty.

    >>> sentence("fraction of correct rows"), sentence("Yes."), sentence("")
    ('Fraction of correct rows.', 'Yes.', '')
    """
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if not text or text[-1] in ".!?:" else ".")
