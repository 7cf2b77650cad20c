"""One convex family around temperature scaling: a map shared by all classes, and terms of every class."""
