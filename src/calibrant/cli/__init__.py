"""The command line: thin commands that read a file, call the library and write the result."""
