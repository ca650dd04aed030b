"""Where the processor time of a put goes: the service in this process, sampled by layer while others put.

Every millisecond of processor time the stacks of all threads are looked at, and each thread's time since the last look
is charged to the layer that its innermost known frame belongs to. Reports as JSON when SIGUSR1 comes, and begins anew.

python -m bench.layers PORT DATA REPORT
"""

import json
import signal
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Final

from coatcheck.cli.serve import serve

LAYERS: Final[dict[str, tuple[str, ...]]] = {
    "index": ("coatcheck/upkeep/index", "coatcheck/core/fulltext/"),
    "tokens": ("coatcheck/adapters/tokenizer", "coatcheck/core/text/count"),
    "compress": ("coatcheck/core/encoding/seekable", "coatcheck/core/encoding/frames"),
    "digest": ("coatcheck/core/encoding/payload_encoder",),
    "recognise": (
        "coatcheck/core/kinds/",
        "coatcheck/core/survey/",
        "coatcheck/core/structure/",
        "coatcheck/core/media/",
        "coatcheck/core/outline/",
        "coatcheck/core/extract/",
    ),
    "card": ("coatcheck/core/card/", "coatcheck/core/choose/"),
    "commit": ("sqlalchemy/engine/default.py:do_commit", "coatcheck/adapters/sql/postgres_writer"),
    "writer": ("coatcheck/adapters/sql/writer",),
    "SQL": ("coatcheck/adapters/sql/",),
    "use case": ("coatcheck/usecases/", "coatcheck/storing/", "coatcheck/runtime/"),
    "decode": (
        "coatcheck/api/http/body",
        "coatcheck/api/http/json_body",
        "coatcheck/api/http/query",
        "coatcheck/api/ingest/",
        "coatcheck/core/parts",
    ),
    "HTTP face": ("coatcheck/api/",),
    "upkeep": ("coatcheck/upkeep/", "coatcheck/jobs/"),
    "uvicorn": ("uvicorn/",),
}
OTHER: Final = "event loop"
_TICK: Final = 0.001


class Sampler:
    """Charges processor time to layers."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._layers: dict[str, str | None] = {}
        self._clocks: dict[int, float] = {}
        self._spent: defaultdict[str, float] = defaultdict(float)

    def tick(self, _number: int, frame: FrameType | None) -> None:
        """Look at every thread."""
        frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - no other way to a thread's stack
        frames[threading.main_thread().ident or 0] = frame or frames[threading.main_thread().ident or 0]
        for thread in threading.enumerate():
            stack = frames.get(thread.ident or 0)
            if thread.ident is None or stack is None:
                continue
            now = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
            spent = now - self._clocks.get(thread.ident, now)
            self._clocks[thread.ident] = now
            if spent:
                self._spent[self._layer(stack)] += spent

    def report(self, *_: object) -> None:
        """Write down what was charged, and forget it."""
        self._report.with_suffix(".new").write_text(json.dumps(self._spent), encoding="utf-8")
        self._report.with_suffix(".new").rename(self._report)
        self._spent.clear()

    def _layer(self, frame: FrameType | None) -> str:
        found: str | None = None
        while frame is not None:
            name = f"{frame.f_code.co_filename}:{frame.f_code.co_name}"
            if name not in self._layers:
                self._layers[name] = next(
                    (layer for layer, parts in LAYERS.items() if any(part in name for part in parts)), None
                )
            layer = self._layers[name]
            if layer == "index":  # whatever it calls
                return layer
            found = found or layer
            frame = frame.f_back
        return found or OTHER


def main(port: str, data: str, report: str) -> None:
    """Serve until SIGTERM."""
    sampler = Sampler(Path(report))
    signal.signal(signal.SIGPROF, sampler.tick)
    signal.signal(signal.SIGUSR1, sampler.report)
    signal.setitimer(signal.ITIMER_PROF, _TICK, _TICK)
    serve(["--port", port, "--data", data])


if __name__ == "__main__":
    main(*sys.argv[1:])
