"""Runs an MCP server as a child process: exchanges lines with it, and ends it with everything that it has started.

The server writes to the standard error of this process. It leads a process group of its own, so that the processes that
it has started can be ended with it.
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
"""Seconds that a server has to exit after its input ends, and again after SIGTERM. Hosts wait 2 seconds each time."""
_PAUSE: Final = 0.02
"""Seconds between two checks whether the server has exited."""


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
            OSError: the command cannot be started.
        """
        program = shutil.which(command[0]) or command[0]  # finds npx.cmd on Windows
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
        """Sends a line to the server; does nothing if the server has ended."""
        with contextlib.suppress(ConnectionError):  # `lines` ends as well, which reports the end
            self._input.writelines((line, b"\n"))
            await self._input.drain()

    async def finish(self) -> None:
        """Tells the server that nothing more will be sent."""
        self._input.close()

    async def end(self) -> int:
        """Ends the server and everything that it has started, and returns its exit code.

        As in a shell, the code is 128 plus the signal's number if a signal ended the server. It is 1 if the server
        still runs.
        """
        self._input.close()
        if not await self._ended():
            self._signal(signal.SIGTERM)
            await self._ended()
        self._signal(signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
        await self._ended()
        code = self._process.returncode
        return 1 if code is None else code if code >= 0 else 128 - code

    async def _ended(self) -> bool:
        """Waits for the process for up to PATIENCE seconds; returns whether it has ended.

        Polls instead of calling `wait`, which also waits for pipes that children of the process hold open.
        """
        for _ in range(int(PATIENCE / _PAUSE)):
            if self._process.returncode is not None:
                return True
            await asyncio.sleep(_PAUSE)
        return False

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the whole group has ended
            if sys.platform == "win32":
                self._process.terminate()
            else:
                os.killpg(self._process.pid, number)
