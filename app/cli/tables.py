"""Where tables are printed."""

import sys

from rich.console import Console

UNCUT = 10_000
"""Columns: no table has more."""


def console() -> Console:
    """On a terminal as wide as that is; in a pipe or file as wide as it takes, for nothing may be cut off there."""
    return Console(width=None if sys.stdout.isatty() else UNCUT)
