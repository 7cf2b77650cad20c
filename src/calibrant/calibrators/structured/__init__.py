"""Structured scaling: a convex family around temperature scaling."""
