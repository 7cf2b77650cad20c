"""Functions of the commands, imported after a command line has been parsed."""
