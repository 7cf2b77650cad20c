"""Save a fitted calibrator to a file and use it in another program.

Run it with ``python examples/saving_and_loading.py``; it writes ``calibrator.npz`` to the current folder.
The file contains numbers and a JSON header, no pickle, so loading it never runs code from the file.
"""

import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from calibrant import DirichletCalibration, load

features, labels = load_wine(return_X_y=True)
train, rest, train_labels, rest_labels = train_test_split(
    features, labels, train_size=60, stratify=labels, random_state=0
)
classifier = GaussianNB().fit(train, train_labels)
p = classifier.predict_proba(rest)

calibrator = DirichletCalibration(penalty="l2").fit(p, rest_labels)
calibrator.save("calibrator.npz")

# In another program: the file contains the class name and its parameters.
loaded = load("calibrator.npz")
print(loaded)
print(
    "same predictions:",
    np.array_equal(loaded.predict_proba(p), calibrator.predict_proba(p)),
)
