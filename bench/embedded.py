"""How long a program waits for its first card with an embedded service, beside the start of a bare interpreter.

A new process opens a data directory, puts a log and prints the card: where no service and no directory is there, where
only the service is missing, and where another program has the service open. Each is the median of several.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

from coatcheck_client import embedded

ROUNDS: Final = 5
PROGRAM: Final = """
import sys
from coatcheck_client import embedded
with embedded(sys.argv[1], inline_tokens=0) as coatcheck:
    print(coatcheck.put("one line of a log\\n" * 3000).text)
"""


def run() -> None:
    """Print a line each: seconds, and as a multiple of the interpreter's start."""
    bare = median(_time("pass") for _ in range(ROUNDS))
    print(f"{'bare interpreter':>26} | {bare:6.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        _report("nothing is there", [_time(PROGRAM, Path(folder) / str(number)) for number in range(ROUNDS)], bare)
        data = Path(folder) / "0"
        times: list[float] = []
        for _ in range(ROUNDS):
            time.sleep(7)  # until the service has ended
            times.append(_time(PROGRAM, data))
        _report("a directory is there", times, bare)
        with embedded(data):
            _report("a service is there", [_time(PROGRAM, data) for _ in range(ROUNDS)], bare)
        time.sleep(7)


def _time(program: str, *arguments: Path) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def _report(name: str, times: list[float], bare: float) -> None:
    print(f"{name:>26} | {median(times):6.3f} s | {median(times) / bare:5.1f} interpreters", flush=True)
