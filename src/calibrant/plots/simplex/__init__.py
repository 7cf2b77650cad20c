"""Plots on the simplex of three classes."""
