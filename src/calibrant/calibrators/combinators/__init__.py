"""Calibrators that combine or compare others."""
