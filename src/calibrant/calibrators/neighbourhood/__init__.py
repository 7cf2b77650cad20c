"""Neighbourhoods of a prediction: what went wrong nearby is taken away."""
