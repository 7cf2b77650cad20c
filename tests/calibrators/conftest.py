"""This file puts the folder on the path: rows that the tests of several folders share are modules of it."""
