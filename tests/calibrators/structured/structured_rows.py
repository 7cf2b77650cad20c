"""Structured scaling by name, and rows to fit it to."""

import numpy as np
import pytest
from scipy.special import softmax

from calibrant import StructuredScaling

NAMES = list(StructuredScaling.registry_names)
every_name = pytest.mark.parametrize("name", NAMES)


def made(name, **parameters):
    return StructuredScaling(**{**StructuredScaling.registry_names[name], **parameters})


def problem(n_rows, n_classes, seed=0, sharpness=2.0):
    """Over-confident, biased predictions and labels drawn from what they should have been."""
    generator = np.random.default_rng(seed)
    logits = 2 * generator.normal(size=(n_rows, n_classes))
    biases = np.linspace(-0.5, 0.5, n_classes)
    labels = (logits + biases + generator.gumbel(size=logits.shape)).argmax(axis=1)
    return softmax(sharpness * logits, axis=1), labels
