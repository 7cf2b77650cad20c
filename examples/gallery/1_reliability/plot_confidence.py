"""
Reliability diagram with confidence intervals
=============================================

Rows are binned by their confidence. The bar of a bin shows its accuracy, the hatched part the gap to the
mean confidence. Naive Bayes counts the same evidence many times and is far too confident.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from calibrant.plots import ReliabilityDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=600, stratify=y, random_state=0
)
classifier = GaussianNB(var_smoothing=1e-2).fit(X_train, y_train)

ReliabilityDisplay.from_estimator(classifier, X_test, y_test, n_bins=10).plot()
