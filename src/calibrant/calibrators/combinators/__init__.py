"""Calibrators that combine, select or wrap others."""
