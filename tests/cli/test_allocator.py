"""What was large and is freed is the system's again."""

import platform
import subprocess
import sys
import textwrap

import pytest


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library keeps large blocks")
def test_freed_blocks_beside_some_that_stay_go_back() -> None:
    script = textwrap.dedent("""
        import psutil
        from coatcheck.cli.serving.allocator import return_large_blocks
        assert return_large_blocks()  # without it none of the four blocks goes back
        size, process = 20 * 1024 * 1024, psutil.Process()
        first = b"x" * size
        del first
        blocks = [b"x" * size for _ in range(4)]
        kept = [bytes(200_000) for _ in range(4)]
        before = process.memory_info().rss
        del blocks
        print((before - process.memory_info().rss) / size)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) > 3.5
