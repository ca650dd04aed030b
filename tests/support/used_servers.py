"""Which servers and Pythons a test run really used, for its summary: whoever opens the way to one calls `used`."""

_used: set[str] = set()


def used(server: str) -> None:
    """Remember a server, in words such as `PostgreSQL: our own`, or a Python."""
    _used.add(server)


def all_used() -> list[str]:
    """Every server that this process used."""
    return sorted(_used)
