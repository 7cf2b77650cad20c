"""Reductions of several classes to binary problems."""
