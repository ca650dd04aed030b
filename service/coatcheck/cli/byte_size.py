"""Sizes as people write them on the command line: `1048576`, `64mib`, `10gib`."""

import re
from typing import Final

import click

_UNITS: Final = {"": 1, "kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4}


def bytes_of(text: str) -> int | None:
    """The bytes that a size stands for; None if it is not one."""
    found = re.fullmatch(r"([0-9]{1,18})([a-z]{0,3})", text.lower())
    return None if found is None or found[2] not in _UNITS else int(found[1]) * _UNITS[found[2]]


def byte_size(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Callback of an option that takes a size: its bytes, None without a value; else it ends the command."""
    if value is None:
        return None
    size = bytes_of(value)
    if size is None:
        raise click.BadParameter(f"{value!r} is not a number of bytes; kib, mib, gib or tib may follow the number.")
    return size
