"""What the winning bets say about forecasts, in words."""

from typing import Any

import numpy as np

from calibrant.online.capital import Capital

__all__ = ["opinion_in_words"]

# A confident forecast, at which an opinion about the predicted class is read.
CONFIDENT = 0.8


def opinion_in_words(capital: Capital, event: int, bet: int, classes: Any) -> str:
    """Return what is wrong with the forecasts if this bet is right.

    >>> from calibrant.online.capital import capitals
    >>> opinion_in_words(capitals("top-label", 3, "any-time")[0], 0, 0, [0, 1, 2])
    'the classifier is too sure: its predicted class is right less often than its confidence says'
    """
    bets = capital.bets
    slope, shift = float(bets.slope[bet]), float(bets.shift[bet])
    if np.isfinite(bets.high[bet]) or bets.low[bet] > 0:
        between = f"between {bets.low[bet]:g} and {min(bets.high[bet], 1.0):g}"
        often = "less often" if shift < 0 else "more often"
        if capital.about == "top-label":
            too = "too sure" if shift < 0 else "too timid"
            return f"the classifier is {too} at confidences {between}: it is right {often} than they say"
        return f"the event happens {often} than forecasts {between} say"
    if capital.about == "top-label":
        opinion = slope * np.log(CONFIDENT / (1 - CONFIDENT)) + shift
        if opinion < np.log(CONFIDENT / (1 - CONFIDENT)):
            return (
                "the classifier is too sure: its predicted class is right less often than its confidence says"
            )
        return "the classifier is too timid: its predicted class is right more often than its confidence says"
    subject = "the event" if capital.about == "event" else f"class {np.asarray(classes)[event].item()!r}"
    parts = []
    if slope != 1:
        too = "too sure, too near to 0 and 1" if slope < 1 else "too timid, too far from 0 and 1"
        parts.append(f"forecasts of {subject} are {too}")
    if shift != 0:
        often = "less often" if shift < 0 else "more often"
        parts.append(f"{subject} happens {often} than forecast")
    return ", and ".join(parts)
