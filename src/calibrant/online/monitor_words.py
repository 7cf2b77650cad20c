"""The kind of miscalibration indicated by the winning bets, in words."""

from typing import Any

import numpy as np

from calibrant.online.capital import Capital

__all__ = ["opinion_in_words"]

# Confidence at which the alternative of a bet on the predicted class is evaluated.
CONFIDENT = 0.8


def opinion_in_words(capital: Capital, event: int, bet: int, classes: Any) -> str:
    """Return what is wrong with the forecasts according to this bet.

    >>> from calibrant.online.capital import capitals
    >>> opinion_in_words(capitals("top-label", 3, "any-time")[0], 0, 0, [0, 1, 2])
    'the classifier is overconfident: its predicted class is right less often than its confidence says'
    """
    bets = capital.bets
    slope, shift = float(bets.slope[bet]), float(bets.shift[bet])
    if np.isfinite(bets.high[bet]) or bets.low[bet] > 0:
        between = f"between {bets.low[bet]:g} and {min(bets.high[bet], 1.0):g}"
        often = "less often" if shift < 0 else "more often"
        if capital.about == "top-label":
            too = "overconfident" if shift < 0 else "underconfident"
            return f"the classifier is {too} at confidences {between}: it is right {often} than they say"
        return f"the event occurs {often} than forecasts {between} say"
    if capital.about == "top-label":
        opinion = slope * np.log(CONFIDENT / (1 - CONFIDENT)) + shift
        if opinion < np.log(CONFIDENT / (1 - CONFIDENT)):
            return "the classifier is overconfident: its predicted class is right less often than its confidence says"
        return "the classifier is underconfident: its predicted class is right more often than its confidence says"
    subject = "the event" if capital.about == "event" else f"class {np.asarray(classes)[event].item()!r}"
    parts = []
    if slope != 1:
        too = "overconfident (too close to 0 and 1)" if slope < 1 else "underconfident (too far from 0 and 1)"
        parts.append(f"forecasts of {subject} are {too}")
    if shift != 0:
        often = "less often" if shift < 0 else "more often"
        parts.append(f"{subject} occurs {often} than forecast")
    return ", and ".join(parts)
