"""An MCP server as a child process: its lines, and its end, after which nothing of it is left.

Its standard error is this process's own. It leads a process group, so that what it has started ends with it.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Final

from coatcheck_client.integrations.mcp_wrap.lines import PIECE, lines

PATIENCE: Final = 1.5
"""Seconds that a server has after the end of its input, and again after SIGTERM. Hosts give theirs twice 2 seconds."""
_PAUSE: Final = 0.02


class ChildServer:
    """A running server. Create it with `start`."""

    def __init__(
        self, process: asyncio.subprocess.Process, given: asyncio.StreamWriter, output: asyncio.StreamReader
    ) -> None:
        self._process = process
        self._input = given
        self._output = output

    @classmethod
    async def start(cls, command: Sequence[str]) -> "ChildServer":
        """Starts a command, with the environment and the working directory of this process.

        Raises:
            OSError: if it cannot be started.
        """
        program = shutil.which(command[0]) or command[0]  # on Windows npx is a file npx.cmd
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            program, *command[1:], stdin=pipe, stdout=pipe, start_new_session=True
        )
        if process.stdin is None or process.stdout is None:
            raise OSError("The process has no pipes.")
        return cls(process, process.stdin, process.stdout)

    def lines(self) -> AsyncIterator[bytes]:
        """Yields the lines that the server sends."""
        return lines(lambda: self._output.read(PIECE))

    async def send(self, line: bytes) -> None:
        """Sends a line to the server; ignored if it has ended."""
        with contextlib.suppress(ConnectionError):  # the end of its lines shows that it has ended
            self._input.writelines((line, b"\n"))
            await self._input.drain()

    async def finish(self) -> None:
        """Tells the server that nothing more will be sent."""
        self._input.close()

    async def end(self) -> int:
        """Ends the server, with whatever it has started, and returns its exit code like a shell."""
        self._input.close()
        if not await self._ended():
            self._signal(signal.SIGTERM)
            await self._ended()
        self._signal(signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
        await self._ended()
        code = self._process.returncode
        return 1 if code is None else code if code >= 0 else 128 - code

    async def _ended(self) -> bool:
        """Returns whether the process ends soon.

        Not by `wait`, which also waits for the pipes that its children hold.
        """
        for _ in range(int(PATIENCE / _PAUSE)):
            if self._process.returncode is not None:
                return True
            await asyncio.sleep(_PAUSE)
        return False

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing of it is left
            if sys.platform == "win32":
                self._process.terminate()
            else:
                os.killpg(self._process.pid, number)
