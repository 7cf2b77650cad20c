"""The command line: commands that read a file, call the library and write the result."""
