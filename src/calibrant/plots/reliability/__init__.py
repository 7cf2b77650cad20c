"""Reliability diagrams: their curves, intervals and plots."""
