"""Run the command line: ``python -m calibrant``."""

from calibrant.cli.main import main

if __name__ == "__main__":
    main()
