"""Sections of the report: each file measures its results, if it has any of its own, and shows them."""
