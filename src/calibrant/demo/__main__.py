"""Run the demo: ``python -m calibrant.demo``."""

from calibrant.demo.run import main

if __name__ == "__main__":
    main()
