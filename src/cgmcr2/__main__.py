"""``python -m cgmcr2``: the command line."""

from cgmcr2.cli import main

if __name__ == "__main__":
    main()
