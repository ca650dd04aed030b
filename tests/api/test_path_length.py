"""How much code a request passes: what a reader must know to follow it. Lower the numbers, never raise them."""

import json
import subprocess
import sys
from pathlib import Path

MOST = {"put of 18 bytes": (74, 338), "put of 16 KB": (106, 534), "read of lines": (41, 159)}
"""By request, the most modules and functions."""


def test_no_request_passes_more_code_than_it_did(tmp_path: Path) -> None:
    # A process of its own: a profile function slows everything down, and tests may have one.
    script = Path(__file__).with_name("path_length.py")
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts.keys() == MOST.keys()
    over = {name: count for name, count in counts.items() if count[0] > MOST[name][0] or count[1] > MOST[name][1]}
    assert over == {}
