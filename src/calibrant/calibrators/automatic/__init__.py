"""The automatic choice: candidates, trials on rows held out, and the pool that follows from them."""
