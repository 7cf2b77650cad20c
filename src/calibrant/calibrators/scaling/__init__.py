"""Maps of the logits with a few parameters."""
