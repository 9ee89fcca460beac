"""`python -m compactor`: the same as the `compactor` script."""

from compactor.cli import main

if __name__ == "__main__":
    main()
