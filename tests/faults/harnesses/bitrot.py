"""Flip single bits of stored bytes, in files and in rows: never a wrong byte on any read, and each flip is found by the
check, by a full read, or lies where no content is; its neighbours stay as they are.

python tests/faults/harnesses/bitrot.py sqlite+files --flips 1000        prints one JSON line
"""

import contextlib
import hashlib
import random
import sqlite3
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coatcheck.core.encoding.frames import FrameIndex, zstd
from faults import combos
from faults.caller import Answer, Broken, Caller
from faults.fork_server import Nursery, nursery
from faults.report import Report, script

SETTINGS: dict[str, int | str] = {"sweep_seconds": 3600}
ROUND = 50
"""Flips between two checks: one blob each."""
RANGES = 4


@dataclass(frozen=True)
class Shelf:
    """An artifact and where its bytes are."""

    name: str
    payload: bytes
    blob_id: str = ""
    index: FrameIndex | None = None


def fill(caller: Caller, opened: combos.Storage, rng: random.Random, count: int) -> list[Shelf]:
    """Artifacts of every form: small in rows, large in files, compressible and not, one and several frames."""
    shelves: list[Shelf] = []
    for number in range(count):
        size = rng.choice((300, 5_000, 20_000, 70_000, 400_000))
        payload = rng.randbytes(size)
        if number % 2:
            payload = b"".join(b"%d %d\n" % (number, b) for b in payload)[: size * 3]
        answer = caller.post(payload, tool_call_id=f"c{number}", inline_tokens=0)
        assert answer.status == 201, str(answer)
        shelves.append(Shelf(answer.json["id"], payload))
    with contextlib.closing(sqlite3.connect(opened.data / "coatcheck.db")) as conn:
        rows: dict[bytes, tuple[str, bytes]] = {
            digest: (blob_id, index)
            for digest, blob_id, index in conn.execute("SELECT sha256, id, frames FROM blobs").fetchall()
        }
    placed = [(s, *rows[hashlib.sha256(s.payload).digest()]) for s in shelves]
    return [Shelf(s.name, s.payload, blob_id, FrameIndex.unpack(index)) for s, blob_id, index in placed]


def flip(opened: combos.Storage, blob_id: str, rng: random.Random) -> tuple[bytes, int, int]:
    """Turn one bit of a blob's stored bytes; answers what they are now, which byte and which bit."""
    path, bit = opened.data / "blobs" / blob_id[-2:] / blob_id, rng.randrange(8)
    if path.exists():
        stored = bytearray(path.read_bytes())
        at = rng.randrange(len(stored))
        stored[at] ^= 1 << bit
        path.write_bytes(stored)
        return bytes(stored), at, bit
    with contextlib.closing(sqlite3.connect(opened.data / "coatcheck.db", timeout=30)) as conn, conn:
        (seq,) = conn.execute("SELECT seq FROM blobs WHERE id = ?", (blob_id,)).fetchone()
        (inline,) = conn.execute("SELECT stored FROM inline_bytes WHERE blob_seq = ?", (seq,)).fetchone()
        stored = bytearray(inline)
        at = rng.randrange(len(stored))
        stored[at] ^= 1 << bit
        conn.execute("UPDATE inline_bytes SET stored = ? WHERE blob_seq = ?", (bytes(stored), seq))
    return bytes(stored), at, bit


def harmless(shelf: Shelf, stored: bytes, at: int, bit: int) -> str | None:
    """Where a flip changes no content: what is there; None anywhere else."""
    assert shelf.index is not None
    starts = [shelf.index.locate_frames(i, i)[0] for i in range(shelf.index.count + 1)]
    if at >= starts[-1]:
        return "in the seek table, which only foreign readers use"
    # RFC 8878, section 3.1.1.1.1.4: "A decoder compliant with this specification version shall not interpret this bit."
    if bit == 4 and at - 4 in starts:
        return "in a frame's unused bit"
    frame = bisect_right(starts, at) - 1
    first = frame * shelf.index.frame_size
    content = shelf.payload[first : first + shelf.index.frame_size]
    return (
        "in a bit that no content depends on"
        if _decoded(stored[slice(*starts[frame : frame + 2])]) == content
        else None
    )


def _decoded(frame: bytes) -> bytes | None:
    """What a plain decoder, which verifies the checksum, makes of a frame: padding and slack in its coding differ."""
    try:
        return zstd.decompress(frame)
    except zstd.ZstdError:
        return None


def noticed(answer: Answer | None) -> bool:
    """Whether an answer says that the bytes are damaged: in words, or by ending before its length."""
    return answer is None or (answer.status == 500 and answer.json["code"] == "integrity")


def whole(caller: Caller, name: str, span: str | None = None) -> Answer | None:
    """The answer; None when the service broke it off, because it found damage after the head was sent."""
    try:
        return caller.content(name, span)
    except Broken:
        return None


def look(caller: Caller, shelf: Shelf, rng: random.Random, report: Report, *, damaged: bool) -> bool:
    """Read it in ranges and whole; whether damage was noticed."""
    seen = False
    for _ in range(RANGES):
        start = rng.randrange(len(shelf.payload))
        end = min(len(shelf.payload), start + rng.randrange(1, 4096))
        answer = whole(caller, shelf.name, f"bytes={start}-{end - 1}")
        if answer is not None and answer.status == 206:
            report.expect("no wrong byte in a range", answer.body == shelf.payload[start:end], shelf.name)
        else:
            report.expect("sound bytes are readable", damaged, answer)
            seen |= noticed(answer)
    answer = whole(caller, shelf.name)
    if answer is not None and answer.status == 200:
        report.expect("no wrong byte in the whole", answer.body == shelf.payload, shelf.name)
    else:
        report.expect("sound bytes are readable", damaged, answer)
        seen |= noticed(answer)
    return seen


def one_round(
    forks: Nursery, folder: Path, flips: int, rng: random.Random, report: Report, faults: Sequence[str]
) -> None:
    """Fresh artifacts, as many flips, two reads of each: by a service that has cached nothing."""
    folder.mkdir()
    opened = combos.Storage(report.storage, folder)
    service = forks.start(opened.data, settings=SETTINGS)
    caller = service.caller()
    shelves = fill(caller, opened, rng, flips + flips // 5)
    caller.close()
    report.expect("stopped cleanly", service.stop() == 0)
    hurt = {s.blob_id: harmless(s, *flip(opened, s.blob_id, rng)) for s in rng.sample(shelves, flips)}
    found = " ".join(opened.audit(forks))
    service = forks.start(opened.data, faults=faults, settings=SETTINGS)
    caller = service.caller()
    for shelf in shelves:
        damaged = shelf.blob_id in hurt
        by_check = shelf.blob_id in found
        report.expect("the check accuses no sound blob", damaged or not by_check, shelf.blob_id)
        by_read = look(caller, shelf, rng, report, damaged=damaged)
        if damaged:
            report.counts["flips"] += 1
            report.counts["found by reading"] += by_read
            report.counts["found by the check"] += by_check
            if not (by_read or by_check):
                where = hurt[shelf.blob_id]
                report.counts[f"without effect, {where}"] += 1
                report.expect("each flip in content is found", where is not None, shelf.blob_id)
    caller.close()
    service.stop()


def run(storage: str, flips: int, seed: int, faults: Sequence[str] = (), shared: Nursery | None = None) -> Report:
    """Rounds until there were enough."""
    report, rng = Report("bitrot", storage), random.Random(seed)
    if storage != combos.EMBEDDED:
        raise SystemExit("bits are flipped in local files and rows; other stores keep their own checksums")
    with combos.opened(storage) as opened, nursery(shared) as forks:
        for number, start in enumerate(range(0, flips, ROUND)):
            one_round(forks, opened.folder / f"{number}", min(ROUND, flips - start), rng, report, faults)
    return report


if __name__ == "__main__":
    script(__doc__, run, unit="flips", default=1000)
