"""Rows whose truth is temperature scaling, with a shift for every class, to put intervals around."""

import numpy as np


def rows_of(n_rows, n_classes, seed=0, shift=0.0):
    """Labels are drawn at a temperature of 1/0.6, the classes shifted from minus to plus so much; all occur."""
    generator = np.random.default_rng([seed, n_classes])
    p = generator.dirichlet(np.full(n_classes, 0.8), n_rows)
    shifts = np.linspace(-shift, shift, n_classes)
    y = (0.6 * np.log(p) + shifts + generator.gumbel(size=p.shape)).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return p, y


def coverage(task, calibrator, n_rows, n_repeats, target=None):
    """Share of pairs of row and class whose interval holds the truth, or what a given calibrator says."""
    test = task.sample(100, random_state=10**6).predictions
    truth = task.true_probabilities(test) if target is None else target.predict_proba(test)
    held = []
    for repeat in range(n_repeats):
        rows = task.sample(n_rows, random_state=repeat)
        lower, upper = calibrator.fit(rows.predictions, rows.labels).predict_interval(test)
        held.append(((lower <= truth) & (truth <= upper)).mean())
    return np.mean(held)
