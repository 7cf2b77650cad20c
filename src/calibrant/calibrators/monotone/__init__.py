"""Methods that ask only for order: the higher the score, the higher the probability."""
