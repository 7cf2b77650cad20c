"""How sure a fitted map is: normal approximations and refits, and what they say about probabilities."""
