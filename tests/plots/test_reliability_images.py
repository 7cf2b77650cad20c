"""Some pictures against images that somebody has looked at.

Set ``CALIBRANT_DRAW_BASELINES=1`` to draw them anew, and look at them before they are kept.
"""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from calibrant.plots import ClasswiseReliabilityDisplay, CumulativeDifferenceDisplay, ReliabilityDisplay

matplotlib = pytest.importorskip("matplotlib")

BASELINE = Path(__file__).parent / "baseline"
DOCUMENTED = Path(__file__).parents[2] / "docs" / "_static"

# Root mean square over pixels and colours, of 255. One other letter in a title costs 4; swapped colours, the other kind of
# intervals, or 30 of 600 labels turned round cost 15 or more.
TOLERANCE = 12


def rows():
    generator = np.random.default_rng(3)
    p = generator.beta(0.8, 0.8, 600)
    return (generator.random(600) < 0.15 + 0.7 * p).astype(int), p


def bars():
    y, p = rows()
    return ReliabilityDisplay.from_predictions(y, p, n_bins=12, name="bars and gaps").plot()


def two_models():
    y, p = rows()
    models = {"as given": p, "shrunk": 0.15 + 0.7 * p}
    return ReliabilityDisplay.from_predictions(y, models, mode="consistency", n_bins=10).plot()


def isotonic():
    y, p = rows()
    return ReliabilityDisplay.from_predictions(
        y, p, style="isotonic", mode="consistency", n_resamples=200
    ).plot()


def classes():
    generator = np.random.default_rng(1)
    p = generator.dirichlet([0.6, 0.5, 0.4, 0.3], 800)
    y = (generator.random((800, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=3)
    sharper = p**2 / (p**2).sum(axis=1, keepdims=True)
    return ClasswiseReliabilityDisplay.from_predictions(y, sharper, n_bins=6).plot()


def cumulative():
    y, p = rows()
    return CumulativeDifferenceDisplay.from_predictions(y, p).plot()


def documented():
    """Draw the picture of the page: the same rows as in its examples."""
    from matplotlib import pyplot

    generator = np.random.default_rng(1)
    p = generator.dirichlet(np.full(5, 0.3), 4000)
    y = np.array([generator.choice(5, p=row) for row in p])
    sharper = p**1.5 / (p**1.5).sum(axis=1, keepdims=True)
    _, (left, middle, right) = pyplot.subplots(1, 3, figsize=(13, 5.6), layout="constrained")
    ReliabilityDisplay.from_predictions(y, sharper).plot(left)
    ReliabilityDisplay.from_predictions(y, {"uncalibrated": sharper, "true": p}).plot(middle)
    return ReliabilityDisplay.from_predictions(y, sharper, style="isotonic", mode="consistency").plot(right)


@pytest.mark.skipif(
    matplotlib.__version_info__ < (3, 11), reason="the images show the text of matplotlib 3.11 or later"
)
@pytest.mark.parametrize(
    "draw", [bars, two_models, isotonic, classes, cumulative, documented], ids=lambda draw: draw.__name__
)
def test_a_picture_looks_as_it_did(draw, tmp_path):
    from matplotlib.testing.compare import compare_images

    drawn, expected = tmp_path / "drawn.png", BASELINE / f"reliability_{draw.__name__}.png"
    if draw is documented:
        expected = DOCUMENTED / "reliability_diagrams.png"
    draw().figure_.savefig(drawn, dpi=60 if draw is not documented else 80)
    if os.environ.get("CALIBRANT_DRAW_BASELINES"):
        BASELINE.mkdir(exist_ok=True)
        shutil.copy(drawn, expected)
    difference = compare_images(str(expected), str(drawn), TOLERANCE)
    assert difference is None, difference
