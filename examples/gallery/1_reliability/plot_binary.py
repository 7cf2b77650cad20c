"""
Two classes: the probability of the positive class
==================================================

With two classes the diagram shows the probability of the positive class. A random forest averages many
votes and avoids probabilities near 0 and 1, so its curve is steeper than the diagonal.
"""

from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from calibrant.plots import ReliabilityDisplay

X, y = make_classification(4000, n_informative=8, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
forest = RandomForestClassifier(100, min_samples_leaf=5, random_state=0).fit(
    X_train, y_train
)

ReliabilityDisplay.from_estimator(
    {"random forest": forest}, X_test, y_test, n_bins=10
).plot()
