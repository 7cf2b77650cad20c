"""Prior shift: known class priors, and class priors estimated without labels."""
