"""What the commands do, each loaded when its command line has been parsed."""
