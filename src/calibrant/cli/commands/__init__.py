"""What each command does; imported after its command line has been parsed."""
