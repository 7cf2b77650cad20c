"""Rows for the tests of spline calibration."""

import numpy as np
from hypothesis import strategies as st

from calibrant import SplineCalibration

FORMS = ["one-vs-rest", "top-label"]


@st.composite
def events(draw):
    """Scores in fortieths with many ties, outcomes of both kinds, and whole-number weights."""
    n_rows = draw(st.integers(2, 60))
    scores = draw(st.lists(st.integers(1, 39), min_size=n_rows, max_size=n_rows))
    seed = draw(st.integers(0, 10_000))
    generator = np.random.default_rng(seed)
    outcomes = generator.random(n_rows) < draw(st.sampled_from([0.1, 0.5, 0.9]))
    outcomes[:2] = [True, False]
    return np.array(scores) / 40, outcomes.astype(int), generator.integers(1, 4, n_rows)


def event(**options):
    """Return the method for one event, as it is, without a temperature."""
    return SplineCalibration(temperature=False, **options)


def log_loss(probabilities, labels):
    return -np.log(probabilities[np.arange(len(labels)), labels]).mean()


def drawn(n_rows, n_classes, seed=0, scale=2.0, honest=0.6):
    """Return over-confident logits and labels."""
    generator = np.random.default_rng(seed)
    logits = scale * generator.normal(size=(n_rows, n_classes))
    labels = (honest * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    labels[:n_classes] = np.arange(n_classes)
    return logits, labels
