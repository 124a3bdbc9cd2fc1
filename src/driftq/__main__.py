"""`python -m driftq` is the command line."""

from driftq.cli import main

if __name__ == "__main__":
    main()
