"""The demo: three classifiers of handwritten digits, calibrated by every method; ``python -m calibrant.demo``."""
