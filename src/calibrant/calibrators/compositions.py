"""Compositions that the literature knows by a name of their own."""

__all__ = ["COMPOSITIONS"]

COMPOSITIONS: dict[str, str] = {
    "irova-ts": "temperature+irova",
}
"""Registry name -> the parts, joined by ``+``.

``irova-ts`` is the composition of :cite:`zhang2020`; their program fits the temperature to the squared error, which is
``Chain([TemperatureScaling(loss="brier"), IsotonicCalibration(ties="strict")])``.
"""
