"""Monotone methods: the higher the score, the higher the calibrated probability."""
