"""Secrets: what looking for them costs in a megabyte, and how many are found where there are none.

Costs are CPU milliseconds per MB, beside the SHA-256 of the same bytes, which every payload pays; what is found is
counted per MB over real text: installed packages' sources, this system's documentation and data, its logs.
"""

import hashlib
import site
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from coatcheck.adapters.redaction_rules import Masks
from coatcheck.core.redact.filler import SecretRange
from coatcheck.core.redact.mask import Mask
from coatcheck.core.redact.rules import DEFAULT_OFF

_MOST: Final = 16 * 1024 * 1024
"""Bytes of each kind of text that are looked through."""
_FILE: Final = 512 * 1024
_SETS: Final = {
    "Python sources": (Path(site.getsitepackages()[0]), (".py",)),
    "data of packages": (Path(site.getsitepackages()[0]), (".json", ".js", ".txt", ".rst", ".md", ".html", ".pem")),
    "documentation": (Path("/usr/share/doc"), ("",)),
    "data of the system": (Path("/usr/share"), (".json", ".js", ".xml", ".conf", ".yml", ".yaml")),
    "configuration": (Path("/etc"), ("",)),
    "logs": (Path("/var/log"), ("",)),
}


def texts(root: Path, endings: tuple[str, ...]) -> Iterator[tuple[Path, bytes]]:
    """Files of some endings, up to a number of bytes."""
    left = _MOST
    for path in sorted(root.rglob("*")):
        if left <= 0:
            return
        if path.is_symlink() or not path.name.endswith(endings):
            continue
        try:
            data = path.read_bytes() if path.is_file() and path.stat().st_size <= _FILE else b""
        except OSError:
            continue
        if data and b"\0" not in data[:4096]:
            left -= len(data)
            yield path, data


def cost(work: Callable[[], object]) -> float:
    """CPU seconds, the best of three."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def run() -> None:
    """Both figures for every kind of text, with the usual rules and with those that are off by default."""
    plain = Masks()()
    every = Masks(",".join(DEFAULT_OFF))()
    for name, (root, endings) in _SETS.items():
        files = list(texts(root, endings))
        data = b"\n".join(data for _, data in files)
        if not data:
            print(f"{name}: none here")
            continue
        size = len(data) / 1e6
        scan = cost(lambda data=data: hashlib.sha256(data).digest())
        for which, mask in (("usual", plain), ("every", every)):
            _report(f"{name}, {which} rules", mask, files, data, size, scan)


def _report(name: str, mask: Mask, files: list[tuple[Path, bytes]], data: bytes, size: float, scan: float) -> None:
    taken = cost(lambda: mask.find(data)) / size * 1000
    found: list[tuple[Path, bytes, SecretRange]] = []
    for path, text in files:
        found += [(path, text, secret) for secret in mask.find(text)]
    counts = Counter(mask.names[secret.rule] for _, _, secret in found)
    print(
        f"{name}: {len(files)} files, {size:.1f} MB; {taken:.1f} ms/MB, {taken * size / 1000 / scan:.0f} times "
        f"its SHA-256; {len(found)} found, {len(found) / size:.2f} in a MB {dict(counts.most_common(6))}"
    )
    for path, text, secret in found[:12]:
        line = text[text.rfind(b"\n", 0, secret.start) + 1 :][:100].partition(b"\n")[0]
        print(f"    {mask.names[secret.rule]}: {path}: {line.decode('utf-8', 'replace')}")
