"""The chance of a chaos run: one seed draws everything that the run itself decides."""

from __future__ import annotations

from random import Random


def drawn(*names: object) -> Random:
    """A generator of its own for each combination of names, the seed among them."""
    return Random("-".join(map(str, names)))  # noqa: S311 # why: repeats a run, guards nothing
