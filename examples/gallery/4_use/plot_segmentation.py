"""
Segmentation: calibrate the pixels of an image
==============================================

Scores of shape (images, classes, height, width) need no reshaping. Pixels with the label 255 are ignored in
fits and metrics.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant import Predictions, TemperatureScaling

generator = np.random.default_rng(0)
smooth = generator.normal(0, 1, (6, 3, 8, 8)).repeat(8, axis=2).repeat(8, axis=3)
logits = 4 * smooth + generator.normal(0, 1, smooth.shape)
masks = (logits / 3 + generator.gumbel(size=logits.shape)).argmax(axis=1)
masks[:, :4] = 255  # a border without labels

images = Predictions.from_logits(logits, class_axis=1, ignore_label=255)
fitted = TemperatureScaling().fit(images, masks)
before, after = (
    images.probabilities.reshape(6, 64, 64, 3).max(axis=3),
    fitted.predict_proba(images).max(axis=1),
)

_, axes = plt.subplots(1, 3, figsize=(10, 3.6))
right = np.where(masks == 255, 0.5, logits.argmax(axis=1) == masks)
for ax, picture, title in zip(
    axes,
    (right[0], before[0], after[0]),
    ("correct pixels", "confidence", "calibrated confidence"),
    strict=True,
):
    ax.imshow(picture, vmin=0, vmax=1, cmap="viridis")
    ax.set(title=title, xticks=[], yticks=[])
