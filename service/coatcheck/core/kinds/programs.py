"""Programs, databases, tables, fonts and documents: one good line each, from their headers."""

import ast
import re
import struct
from collections.abc import Callable
from typing import Final

from coatcheck.core.artifact import Sample

_MACHINES: Final = {
    3: "x86",
    8: "MIPS",
    20: "PowerPC",
    21: "PowerPC 64",
    40: "ARM",
    62: "x86-64",
    183: "AArch64",
    243: "RISC-V",
}
_ELF_TYPES: Final = {1: "object file", 2: "executable", 3: "shared library or executable", 4: "core dump"}
_MACH_TYPES: Final = {1: "object file", 2: "executable", 6: "shared library", 8: "bundle"}
_MACH_CPUS: Final = {7: "x86", 0x01000007: "x86-64", 12: "ARM", 0x0100000C: "ARM64"}
_PE_MACHINES: Final = {0x014C: "x86", 0x8664: "x86-64", 0xAA64: "ARM64"}


def _elf(sample: Sample) -> tuple[str, ...]:
    head = sample.head
    if len(head) < 20:  # noqa: PLR2004 - up to the machine
        return ()
    order = "<" if head[5] == 1 else ">"
    kind, machine = struct.unpack_from(f"{order}HH", head, 16)
    bits = {1: "32-bit", 2: "64-bit"}.get(head[4], "")
    return (_said(_ELF_TYPES.get(kind), bits, _MACHINES.get(machine, f"machine {machine}")),)


def _mach(sample: Sample) -> tuple[str, ...]:
    if len(sample.head) < 16:  # noqa: PLR2004 - up to the file type
        return ()
    _, cpu, _, kind = struct.unpack_from("<IIII", sample.head)
    return (_said(_MACH_TYPES.get(kind), _MACH_CPUS.get(cpu, "")),)


def _pe(sample: Sample) -> tuple[str, ...]:
    head = sample.head
    if len(head) < 64:  # noqa: PLR2004 - the DOS header
        return ()
    at = int.from_bytes(head[60:64], "little")
    if head[at : at + 4] != b"PE\0\0" or at + 24 > len(head):
        return ("for DOS or an older Windows",)
    machine, flags = struct.unpack_from("<H16xH", head, at + 4)
    return (_said("library" if flags & 0x2000 else "program", _PE_MACHINES.get(machine, "")),)


def _java(sample: Sample) -> tuple[str, ...]:
    if len(sample.head) < 8:  # noqa: PLR2004 - up to the version
        return ()
    version = int.from_bytes(sample.head[6:8], "big")
    return (f"class for Java {version - 44}",) if version >= 45 else (f"for {version} kinds of machine",)  # noqa: PLR2004


_PYTHONS: Final = (
    (3425, "3.9"),
    (3450, "3.10"),
    (3500, "3.11"),
    (3550, "3.12"),
    (3600, "3.13"),
    (3650, "3.14"),
    (3700, "3.15"),
)
"""Magic numbers below these belong to these releases (Lib/importlib/_bootstrap_external.py of each)."""


def _pyc(sample: Sample) -> tuple[str, ...]:
    number = int.from_bytes(sample.head[:2], "little")
    if number < 3390 or number >= 3700:  # noqa: PLR2004 - older than 3.8, newer than is known
        return ()
    return (f"of Python {next((name for limit, name in _PYTHONS if number < limit), '')}",)


_TABLE: Final = re.compile(rb'CREATE (?:VIRTUAL )?TABLE ["\'`\[]?([\w. -]{1,80}?)["\'`\]]?\s*[(U]', re.IGNORECASE)


def _sqlite(sample: Sample) -> tuple[str, ...]:
    head = sample.head
    if len(head) < 100:  # noqa: PLR2004 - its header
        return ()
    page = int.from_bytes(head[16:18], "big")
    pages = int.from_bytes(head[28:32], "big")
    names = list(dict.fromkeys(name.decode("utf-8", "replace") for name in _TABLE.findall(head)))
    facts = [f"{pages} pages of {65_536 if page == 1 else page} bytes"]
    if names:
        facts.append(f"Tables: {', '.join(names[:60])}{', …' if len(names) > 60 else ''}")  # noqa: PLR2004
    return tuple(facts)


def _npy(sample: Sample) -> tuple[str, ...]:
    head = sample.head
    if len(head) < 12:  # noqa: PLR2004 - up to the header's length
        return ()
    wide = head[6] > 1
    size = int.from_bytes(head[8 : 12 if wide else 10], "little")
    start = 12 if wide else 10
    try:
        said: object = ast.literal_eval(head[start : start + min(size, 2_000)].decode("latin-1"))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ()
    if not isinstance(said, dict):
        return ()
    shape, kind = said.get("shape"), said.get("descr")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return (f"shape {str(shape)[:100]}, type {str(kind)[:100]}",)  # pyright: ignore[reportUnknownArgumentType]


def _font(sample: Sample) -> tuple[str, ...]:
    """The full name from the table of names (OpenType 1.9, `name`)."""
    head = sample.head
    count = int.from_bytes(head[4:6], "big")
    for number in range(min(count, 64)):
        at = 12 + 16 * number
        if head[at : at + 4] == b"name":
            start = int.from_bytes(head[at + 8 : at + 12], "big")
            return _font_name(head[start : start + 65_536])
    return ()


def _font_name(table: bytes) -> tuple[str, ...]:
    count, strings = (int.from_bytes(table[at : at + 2], "big") for at in (2, 4))
    for number in range(min(count, 200)):
        record = table[6 + 12 * number : 18 + 12 * number]
        if len(record) < 12:  # noqa: PLR2004 - a record
            break
        platform, _, _, name, size, offset = struct.unpack(">6H", record)
        if name == 4:  # noqa: PLR2004 - the full name
            raw = table[strings + offset : strings + offset + min(size, 200)]
            text = raw.decode("utf-16-be" if platform in {0, 3} else "latin-1", "replace")
            return (f"called {text}",) if text else ()
    return ()


_NEAR: Final = 64 * 1024
"""Bytes of either end in which a PDF's plain objects are looked for."""
_PAGES: Final = re.compile(
    rb"/Type\s{0,4}/Pages\b[^>]{0,200}?/Count\s{1,4}(\d{1,7})|/Count\s{1,4}(\d{1,7})[^>]{0,200}?/Type\s{0,4}/Pages\b"
)
_PAGE: Final = re.compile(rb"/Type\s{0,4}/Page\b")
_LINEAR: Final = re.compile(rb"/Linearized\b[^>]{0,300}?/N\s{1,4}(\d{1,7})")
_TITLE: Final = re.compile(rb"/Title\s{0,4}\(((?:[^()\\]|\\.){1,400})\)")
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)


def pdf_title(sample: Sample) -> str | None:
    """The title of a PDF whose information is not compressed."""
    found = _TITLE.search((sample.tail or sample.head)[-_NEAR:]) or _TITLE.search(sample.head[:_NEAR])
    if found is None:
        return None
    raw = found.group(1)
    text = raw.decode("latin-1")
    text = _ESCAPE.sub(
        lambda match: chr(int(match.group(1), 8) & 255) if match.group(1).isdigit() else match.group(1), text
    )
    if text.startswith("\xfe\xff"):
        text = text[2:].encode("latin-1").decode("utf-16-be", "replace")
    return " ".join(text.split())[:300] or None


def _pdf(sample: Sample) -> tuple[str, ...]:
    head = sample.head
    facts = [f"version {head[5:8].decode('latin-1')}"] if head[5:6].isdigit() else []
    counts = [int(a or b) for part in (head[:_NEAR], (sample.tail or head)[-_NEAR:]) for a, b in _PAGES.findall(part)]
    linear = _LINEAR.search(head[:2048])
    pages = int(linear.group(1)) if linear else max(counts, default=0)
    if not pages and sample.whole:
        pages = len(_PAGE.findall(head))
    if pages:
        facts.append(f"{pages} {'page' if pages == 1 else 'pages'}")
    if b"/Encrypt" in sample.tail or (sample.whole and b"/Encrypt" in head):
        facts.append("encrypted")
    return (", ".join(facts),) if facts else ()


def _parquet(sample: Sample) -> tuple[str, ...]:
    tail = sample.tail or sample.head
    if tail[-4:] != b"PAR1":
        return ("cut off: its footer is missing",)
    return (f"its footer of {int.from_bytes(tail[-8:-4], 'little')} bytes names the columns",)


def _wasm(sample: Sample) -> tuple[str, ...]:
    return (f"version {int.from_bytes(sample.head[4:8], 'little')}",) if len(sample.head) >= 8 else ()  # noqa: PLR2004


def _gettext(sample: Sample) -> tuple[str, ...]:
    return (f"{int.from_bytes(sample.head[8:12], 'little')} messages",) if len(sample.head) >= 12 else ()  # noqa: PLR2004


def _said(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)


_READERS: Final[dict[str, Callable[[Sample], tuple[str, ...]]]] = {
    "application/x-elf": _elf,
    "application/x-mach-binary": _mach,
    "application/vnd.microsoft.portable-executable": _pe,
    "application/java-vm": _java,
    "application/x-python-code": _pyc,
    "application/vnd.sqlite3": _sqlite,
    "application/x-npy": _npy,
    "application/pdf": _pdf,
    "application/vnd.apache.parquet": _parquet,
    "application/wasm": _wasm,
    "application/x-gettext-translation": _gettext,
    "font/ttf": _font,
    "font/otf": _font,
}


def look(media_type: str, sample: Sample) -> tuple[str, ...]:
    """What the header of such a file says: the first part belongs on the line of its format, the rest are lines."""
    reader = _READERS.get(media_type)
    return tuple(fact for fact in reader(sample) if fact) if reader is not None else ()
