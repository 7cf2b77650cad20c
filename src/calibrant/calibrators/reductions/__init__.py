"""Several classes by means of methods for two."""
