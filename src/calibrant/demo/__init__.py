"""The demo: real classifiers, calibrated by every method; ``python -m calibrant.demo``."""
