"""`python -m coatcheck` is the same as `coatcheck`."""

from coatcheck.cli import main

if __name__ == "__main__":
    main()
