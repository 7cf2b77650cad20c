"""Binning methods: one value for all scores of a bin."""
