"""What was large and is freed is the system's again, and what one thread frees is there for the others."""

import platform
import subprocess
import sys
import textwrap

import pytest

on_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library keeps freed memory")


@on_glibc
def test_freed_blocks_beside_some_that_stay_go_back() -> None:
    script = textwrap.dedent("""
        import psutil
        from coatcheck.cli.serving.process import return_freed_memory
        assert return_freed_memory()  # without it none of the four blocks goes back
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


@on_glibc
def test_what_one_thread_has_freed_another_uses() -> None:
    script = textwrap.dedent("""
        import concurrent.futures, threading
        import psutil
        from coatcheck.cli.serving.process import return_freed_memory
        assert return_freed_memory()  # without it the threads together take about ten times as much as one
        size, process = 100_000, psutil.Process()
        started = threading.Barrier(8)

        def work():
            blocks = [b"x" * size for _ in range(150)]
            del blocks

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: started.wait(), range(8)))
            before = process.memory_info().rss
            for turn in range(8):
                list(pool.map(lambda _: (started.wait(), turn == _ and work()), range(8)))
            print((process.memory_info().rss - before) / (150 * size))
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 2


@on_glibc
def test_what_is_free_between_blocks_that_stay_goes_back() -> None:
    script = textwrap.dedent("""
        import asyncio
        import psutil
        from coatcheck.cli.serving.process import return_freed_memory, returning_free_pages
        assert return_freed_memory()
        size, process = 20_000, psutil.Process()

        async def returned(seconds):
            blocks = [b"x" * size for _ in range(2_000)]
            del blocks[::2]
            before = process.memory_info().rss
            async with returning_free_pages(seconds):
                await asyncio.sleep(1)
                return (before - process.memory_info().rss) / (1_000 * size)

        print(asyncio.run(returned(3600)), asyncio.run(returned(0.1)))
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    without, returned = map(float, done.stdout.split())
    assert without < 0.1
    assert returned > 0.5
