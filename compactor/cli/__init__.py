"""The command line: `compactor COMMAND`; every command is one file of this package."""

from compactor.cli.app import main

__all__ = ["main"]
