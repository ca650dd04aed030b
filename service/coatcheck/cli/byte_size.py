"""Options that take a size as people write it: `1048576`, `64mib`, `10gib`."""

import click

from coatcheck.core.policies.words import size_of


def byte_size(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Callback of an option that takes a size: its bytes, None without a value; else it ends the command."""
    if value is None:
        return None
    try:
        return size_of(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is not a number of bytes; kib, mib, gib or tib may follow the number."
        ) from None
