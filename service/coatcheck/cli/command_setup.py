"""What every command of an administrator needs: its settings, and how an error ends it."""

from pathlib import Path
from typing import NoReturn

from coatcheck.cli.exits import Exit, fail
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.plural import plural
from coatcheck.settings import Settings, load

_EXITS = {Code.INVALID_REQUEST: Exit.WRONG, Code.INTEGRITY: Exit.NOTHING}


def settings_for(data: str | None) -> Settings:
    """Returns the settings from the environment, with the command line's data directory.

    Ends the command if they are invalid.
    """
    try:
        return load(data=data)
    except ValueError as error:
        fail(Exit.WRONG, str(error))


def holds_store(settings: Settings) -> bool:
    """Returns whether there is a store already, as far as can be told without opening it."""
    if settings.database_url:
        return True
    from coatcheck.bootstrap import DATABASE  # noqa: PLC0415 - the client commands must start quickly

    return (Path(settings.data) / DATABASE).exists()


def require_store(settings: Settings) -> None:
    """Ends the command if the settings name an embedded store that does not exist."""
    if not holds_store(settings):
        fail(
            Exit.WRONG,
            f"there is no store in {Path(settings.data).resolve()}. Name its directory with --data. "
            "(`coatcheck migrate` makes a store, and so does the first `coatcheck serve`.)",
        )


def end(error: CoatcheckError) -> NoReturn:
    """Prints the error and exits: 2 for a wrong request, 1 for damage that was found, 4 for storage."""
    fail(_EXITS.get(error.code, Exit.UNREACHABLE), error.detail)


def render_size(count: float) -> str:
    """Returns a number of bytes in readable form."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:  # noqa: PLR2004 - binary units
            return plural(int(count), "byte") if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"
