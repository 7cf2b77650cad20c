"""Implementations of the commands, each loaded after its command line has been parsed."""
