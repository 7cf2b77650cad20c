"""
One reliability diagram per predicted class
===========================================

With ``kind="top-label"`` each diagram has the rows that predict the class. This is the probability that a
user of the predicted label sees.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from calibrant.plots import ClasswiseReliabilityDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=600, stratify=y, random_state=0
)
classifier = GaussianNB(var_smoothing=1e-2).fit(X_train, y_train)
p = classifier.predict_proba(X_test)

ClasswiseReliabilityDisplay.from_predictions(
    y_test, p, kind="top-label", n_bins=5, max_classes=6
).plot()
