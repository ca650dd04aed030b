"""Run work that takes time in the worker threads, off the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def in_pool(pool: Executor, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Answer `work(*args, **kwargs)`, computed in a worker thread; raise what it raises."""
    return await asyncio.get_running_loop().run_in_executor(pool, partial(work, *args, **kwargs))
