"""Files that every checkout's environment has: installed packages, the standard library, the project itself."""

import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from coatcheck.core.artifact import Kind
from kinds.corpus import LARGEST, Source

PROJECT: Final = Path(__file__).parents[2]
_CODE: Final = (
    "py pyi pyx pxd js mjs cjs css ts toml rst md h c cpp hpp f f90 sql sh ps1 bat mako ini cfg yaml yml xml po java "
    "rs go pl pm rb lua cmake desktop service conf vim awk m4 tcl el xsl glsl proto ac in"
)
_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(_CODE.split(), Kind.CODE_OR_FILE),
    **dict.fromkeys(("html", "htm", "xhtml"), Kind.WEB_PAGE),
    **dict.fromkeys(("json", "jsonl", "ndjson", "map"), Kind.JSON),
    **dict.fromkeys(("csv", "tsv"), Kind.TABLE),
    **dict.fromkeys(("patch", "diff"), Kind.DIFF),
    **dict.fromkeys(("png", "jpg", "jpeg", "gif", "webp", "ico", "bmp", "tiff"), Kind.IMAGE),
    **dict.fromkeys(
        [
            "pyc",
            "so",
            "gz",
            "whl",
            "zip",
            "bz2",
            "xz",
            "npy",
            "npz",
            "exe",
            "a",
            "o",
            "mo",
            "ttf",
            "otf",
            "woff",
            "woff2",
            "jar",
            "class",
            "pdf",
            "sqlite",
            "tar",
            "mp3",
            "wav",
        ],
        Kind.BINARY,
    ),
}
_EACH: Final = 60
"""Files of one suffix: no family needs more."""
_SOME_TEXT: Final = 80
"""A file is taken as text only if it says this much."""


def files(root: Path, *, most: int = 60_000) -> list[Path]:
    """Regular files below a folder, by name."""
    found: list[Path] = []
    waiting = [str(root)]
    while waiting and len(found) < most:
        try:
            with os.scandir(waiting.pop()) as listed:
                entries = sorted((entry for entry in listed if not entry.is_symlink()), key=lambda entry: entry.name)
        except OSError:
            continue
        waiting += [entry.path for entry in reversed(entries) if entry.is_dir() and entry.name != ".git"]
        found += [Path(entry.path) for entry in entries if entry.is_file()]
    return found


def by_suffix(paths: list[Path], root: Path, each: int = _EACH) -> Iterator[Source]:
    """Files whose name says what they are. The name is not handed on to the classifier."""
    groups: dict[str, list[Path]] = {}
    for path in paths:
        groups.setdefault(path.suffix.removeprefix(".").lower(), []).append(path)
    for suffix, members in sorted(groups.items()):
        kind = _KINDS.get(suffix)
        if kind is None:
            continue
        step = max(1, len(members) // each)
        for path in members[::step][:each]:
            data = _read(path)
            if data and _honest(kind, data):
                yield Source(kind, suffix, str(path.relative_to(root)), data)


def _honest(kind: Kind, data: bytes) -> bool:
    """Whether the suffix can be believed: a few files are empty, compressed, of another encoding, or page templates."""
    if kind in {Kind.IMAGE, Kind.BINARY}:
        return True
    if kind is Kind.WEB_PAGE and b"{%" in data:
        return False
    return b"\0" not in data and len(data.strip()) > _SOME_TEXT


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST * 2)
    except OSError:
        return b""


def prose(paths: list[Path], root: Path) -> Iterator[Source]:
    """Licences and the like: text that is nothing else."""
    for path in paths:
        name = path.name.upper()
        if name.startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE")) and path.suffix in {"", ".txt"}:
            data = _read(path)
            if b"\0" not in data:
                yield Source(Kind.TEXT, "licence", str(path.relative_to(root)), data)


def environment(each: int = _EACH) -> Iterator[Source]:
    """Everything that a fresh checkout's own Python brings."""
    for root in (Path(sysconfig.get_paths()["purelib"]), PROJECT):
        paths = files(root) if root != PROJECT else _own()
        yield from by_suffix(paths, root, each)
        yield from prose(paths, root)


def _own() -> list[Path]:
    parts = ("service", "migrations", "deploy", "docs", "tests", "bench", "openapi")
    return [path for part in parts if (PROJECT / part).is_dir() for path in files(PROJECT / part)]
