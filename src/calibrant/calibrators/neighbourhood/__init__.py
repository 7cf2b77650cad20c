"""Neighbourhood methods: subtract the mean calibration error of similar predictions."""
