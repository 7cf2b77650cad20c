"""
Several labels per row
======================

Forty labels with 300 rows: separate maps follow the noise of rare labels, one map for all misses their differences,
and the shared map with a slope and a shift of each label has the lowest loss.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from calibrant import MultilabelCalibration
from calibrant.metrics import log_loss, multilabel_score

generator = np.random.default_rng(0)
z = generator.normal(generator.normal(-4, 1, 40), 2, (5300, 40))
slopes, shifts = (
    np.exp(generator.normal(np.log(0.5), 0.2, 40)),
    generator.normal(-2, 0.4, 40),
)
Y = (generator.random(z.shape) < expit(slopes * z + shifts)).astype(int)
fit, test = slice(0, 300), slice(300, None)

models = {
    "separate, isotonic": MultilabelCalibration("isotonic", space="logits"),
    "separate, Platt": MultilabelCalibration("platt", space="logits"),
    "one map for all": MultilabelCalibration(strength=1e9, space="logits"),
    "shared": MultilabelCalibration(space="logits"),
}
losses = {
    name: multilabel_score(
        log_loss,
        Y[test],
        np.clip(model.fit(z[fit], Y[fit]).predict_proba(z[test]), 1e-6, 1 - 1e-6),
    )
    for name, model in models.items()
}

figure, axes = plt.subplots(figsize=(6, 2.5), layout="constrained")
axes.plot(list(losses.values()), list(losses), "o", markersize=8)
axes.grid(axis="x", alpha=0.3)
axes.set_xlabel("macro log-loss on held-out rows")
