"""Methods that give all scores of a bin one value."""
