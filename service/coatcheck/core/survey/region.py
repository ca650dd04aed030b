"""Consecutive bytes of a payload, with their position."""

from msgspec import Struct


class Region(Struct, frozen=True, array_like=True):
    """Whole lines, or a part of one."""

    start: int
    """Offset of the first byte in the payload."""
    line: int
    """Number of the first byte's line, from 1."""
    data: bytes
    begins: bool = True
    """Whether the first byte begins a line."""
    ends: bool = True
    """Whether a line ends after the last byte."""
