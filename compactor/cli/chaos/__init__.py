"""`compactor chaos`: bots, faults, and the account of what became of every message."""

from compactor.cli.chaos.command import chaos

__all__ = ["chaos"]
