"""Latent functions: a smooth function of one score, shared by all classes or by all rows."""
