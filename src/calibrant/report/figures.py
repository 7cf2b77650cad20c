"""Numbers and intervals as plain text, for the terminal and for Markdown."""

from math import isinf

from calibrant.report.contents import Estimate

__all__ = ["NO_VALUE", "difference_text", "estimate_text", "figure", "interval_text", "p_figure"]

NO_VALUE = "-"


def figure(value: float | None, *, signed: bool = False, digits: int = 4) -> str:
    """Return a number with the given significant digits and at most four decimals; a dash for None.

    >>> figure(0.123456), figure(-2.0, signed=True), figure(None), figure(float("inf"))
    ('0.1235', '-2', '-', 'infinite')
    >>> figure(9.975e-05), figure(-3e-9), figure(-0.0), figure(123456.0)
    ('0.0001', '0.0000', '0', '123456')
    """
    if value is None:
        return NO_VALUE
    if isinf(value):
        return "infinite" if value > 0 else "-infinite"
    value += 0.0  # turns -0.0 into 0.0
    sign = "+" if signed else ""
    if 0 < abs(value) < 0.001:
        text = f"{value:{sign}.4f}"
        return text.lstrip("-+") if float(text) == 0 else text
    if abs(value) >= 10**digits:
        return f"{value:{sign}.0f}"
    return f"{value:{sign}.{digits}g}"


def interval_text(estimate: Estimate | None, *, signed: bool = False) -> str:
    """Return the interval of an estimate; empty if it has none.

    >>> interval_text(Estimate("gap", 0.2, 0.1, 0.3)), interval_text(Estimate("error", 0.2, 0.1))
    ('0.1 to 0.3', 'at least 0.1')
    """
    if estimate is None or (estimate.low is None and estimate.high is None):
        return ""
    if estimate.high is None:
        return f"at least {figure(estimate.low, signed=signed)}"
    if estimate.low is None:
        return f"at most {figure(estimate.high, signed=signed)}"
    return f"{figure(estimate.low, signed=signed)} to {figure(estimate.high, signed=signed)}"


def estimate_text(estimate: Estimate | None, *, signed: bool = False) -> str:
    """Return an estimate with its interval.

    >>> estimate_text(Estimate("gap", 0.2, 0.1, 0.3)), estimate_text(None)
    ('0.2 (0.1 to 0.3)', '-')
    """
    if estimate is None:
        return NO_VALUE
    ends = interval_text(estimate, signed=signed)
    return figure(estimate.value, signed=signed) + (f" ({ends})" if ends else "")


def difference_text(estimate: Estimate | None) -> str:
    """Return a difference with its sign and interval; empty if there is none."""
    return "" if estimate is None else estimate_text(estimate, signed=True)


def p_figure(value: float) -> str:
    """Return a p-value.

    >>> p_figure(0.04321), p_figure(1e-9)
    ('0.043', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
