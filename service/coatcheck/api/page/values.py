"""Values of policies, sizes and times as text: with units to be read, and as a form takes them."""

from typing import Any, Final, cast

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_SPANS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_STEP: Final = 1024
_WRITTEN: Final = {
    "ttl": ((86_400, "d"), (3600, "h"), (60, "m")),
    "bytes": ((1024**3, "gib"), (1024**2, "mib"), (1024, "kib")),
}
"""Units that a form takes, by the last word of a field's name."""


def size(value: int) -> str:
    """Returns a number of bytes in readable form: `1.5 MiB`."""
    number, unit = float(value), _UNITS[0]
    for unit in _UNITS:
        if number < _STEP or unit == _UNITS[-1]:
            break
        number /= _STEP
    return f"{value} B" if unit == "B" else f"{number:.1f} {unit}"


def lasting(seconds: float | None) -> str:
    """Returns a duration in its two largest units; None means forever."""
    if seconds is None:
        return "without end"
    remaining, parts = int(abs(seconds)), list[str]()
    for span, unit in _SPANS:
        if remaining >= span and len(parts) < 2:  # noqa: PLR2004 - two units say enough
            parts.append(f"{remaining // span} {unit}")
            remaining %= span
    return " ".join(parts) or "0 s"


def render_decision(name: str, value: Any) -> str:  # noqa: ANN401 - values of all fields
    """Returns a policy's value, with its unit."""
    if isinstance(value, tuple):
        return ", ".join(cast("tuple[str, ...]", value)) or "none"
    if value is None:
        return "without end" if name.endswith("ttl") else "no limit"
    if isinstance(value, bool):
        return render_exact_value(name, value)
    if not isinstance(value, int):
        return str(value)
    return lasting(value) if name.endswith("ttl") else size(value) if name.endswith("bytes") else f"{value:,}"


def render_exact_value(name: str, value: Any) -> str:  # noqa: ANN401 - values of all fields
    """Returns a policy's value exactly, as its form takes it: `7d`, `10gib`, `none`, `true`, `a.example, b.example`."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ", ".join(cast("tuple[str, ...]", value)) or "none"
    units = _WRITTEN.get(name.rpartition("_")[2], ())
    return next((f"{value // size}{unit}" for size, unit in units if value and value % size == 0), str(value))
