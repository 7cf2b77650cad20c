"""Methods with a latent function: a smooth function of one score, shared by all classes or by all rows."""
