"""Watch a process's file calls from outside, and fail the one that is due. Needs Linux, and no privilege.

The process installs a seccomp filter that asks a listener about each call that changes or syncs a file (and, when
wanted, reads one); the harness holds the listener, sees the call before the kernel does it, and lets it pass or
answers with an error in its place. So SQLite's own calls can be failed and recorded like ours, as they are.

Sources: seccomp(2), seccomp_unotify(2), and the kernel's table of calls for each architecture.
"""

import ctypes
import errno
import fcntl
import os
import platform
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

_NUMBERS = {
    "x86_64": {
        "write": 1,
        "pread64": 17,
        "pwrite64": 18,
        "fsync": 74,
        "fdatasync": 75,
        "ftruncate": 77,
        "mkdir": 83,
        "unlink": 87,
        "openat": 257,
        "unlinkat": 263,
        "seccomp": 317,
    },
    "aarch64": {
        "unlinkat": 35,
        "mkdirat": 34,
        "ftruncate": 46,
        "openat": 56,
        "write": 64,
        "pread64": 67,
        "pwrite64": 68,
        "fsync": 82,
        "fdatasync": 83,
        "seccomp": 277,
    },
}
_PAGE = 4096
_READS = frozenset({"pread64"})
_PATH_ARGUMENT = {"mkdir": 0, "unlink": 0, "openat": 1, "unlinkat": 1, "mkdirat": 1}
_LOAD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ASK = 0x7FFF0000, 0x7FC00000
_NO_NEW_PRIVILEGES, _SET_FILTER, _NEW_LISTENER = 38, 1, 8
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_NOTICE = struct.Struct("=QIIiIQ6Q")
_REPLY = struct.Struct("=QqiI")


class Call(NamedTuple):
    """A call that is about to be made on a file in the watched folder."""

    name: str
    path: str
    offset: int = 0
    """Of a pwrite64; the new length of an ftruncate; -1 for a write, which appends here."""
    data: bytes = b""
    """What is written, when the watch keeps data."""


@cache
def why_not() -> str | None:
    """Why calls cannot be watched here; None when they can."""
    if platform.system() != "Linux" or platform.machine() not in _NUMBERS:
        return f"system calls can be watched on Linux (x86_64, aarch64), not on {platform.system()}"
    tried = subprocess.run([sys.executable, __file__], capture_output=True, check=False)
    return None if tried.returncode == 0 else "this machine forbids seccomp filters with a listener"


def install(channel: socket.socket, *, reads: bool = False) -> None:
    """Have this process and what it starts be watched; hands the listener over. Raises OSError when forbidden."""
    numbers = _NUMBERS[platform.machine()]
    asked = [n for name, n in numbers.items() if name not in {"openat", "seccomp"} and (reads or name not in _READS)]
    # Of openat only what creates a file: load the number, then for openat its flags.
    program = [(_LOAD, 0, 0, 0)]
    end = len(asked) + 3
    program += [(_JUMP_EQUAL, end - i, 0, n) for i, n in enumerate(asked)]
    program += [
        (_JUMP_EQUAL, 0, 2, numbers["openat"]),
        (_LOAD, 0, 0, 16 + 8 * 2),
        (_JUMP_SET, 1, 0, os.O_CREAT),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ASK),
    ]
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    held = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("@HxxxxxxQ", len(program), ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    fd: int = libc.syscall(numbers["seccomp"], _SET_FILTER, _NEW_LISTENER, described)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    # sendmsg is not among the calls that ask: nobody could answer before the listener is handed over.
    socket.send_fds(channel, [b"listener"], [fd])
    os.close(fd)


class Watch:
    """Asks `decide` about each call on a file under a folder: 0 lets it pass, an errno fails it."""

    def __init__(self, folder: Path, decide: Callable[[Call], int], *, keep_data: bool = False) -> None:
        self._folder = f"{folder}"
        self._decide = decide
        self._keep_data = keep_data
        self._names = {n: name for name, n in _NUMBERS[platform.machine()].items()}
        self._ours, self.theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Return when the watched process is gone and every call of its was seen."""
        self.theirs.close()
        self._thread.join()

    def _run(self) -> None:
        with self._ours:
            _, fds, _, _ = socket.recv_fds(self._ours, 16, 1)
        if not fds:
            return
        listener = fds[0]
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        try:
            while True:
                events = poll.poll()[0][1]
                if not events & select.POLLIN:
                    return
                self._one(listener)
        finally:
            os.close(listener)  # whoever asks from now on is told that there is no such call

    def _one(self, listener: int) -> None:
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, notice)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.EINTR}:
                return  # the process was killed in the middle of the call
            raise
        number, pid, _, call, _, _, *arguments = _NOTICE.unpack(notice)
        seen = self._seen(pid, self._names[call], arguments)
        verdict = 0 if seen is None else self._decide(seen)
        reply = _REPLY.pack(number, 0, -verdict, 0 if verdict else _CONTINUE)
        try:
            fcntl.ioctl(listener, _SEND, reply)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise

    def _seen(self, pid: int, name: str, arguments: list[int]) -> Call | None:
        try:
            if name in _PATH_ARGUMENT:
                path = self._string(pid, arguments[_PATH_ARGUMENT[name]])
            else:
                path = str(Path(f"/proc/{pid}/fd/{arguments[0]}").readlink())
            if not path.startswith(self._folder):
                return None
            if name in {"write", "pwrite64"}:
                data = self._memory(pid, arguments[1], arguments[2]) if self._keep_data else b""
                return Call(name, path, arguments[3] if name == "pwrite64" else -1, data)
            return Call(name, path, arguments[1] if name == "ftruncate" else 0)
        except OSError:
            return None  # it is gone, and its call with it

    def _string(self, pid: int, address: int) -> str:
        text = b""
        while b"\0" not in text:  # page by page: what lies behind the end may not be there
            at = address + len(text)
            page = self._memory(pid, at, _PAGE - at % _PAGE)
            if not page:
                raise ProcessLookupError(pid)
            text += page
        return os.fsdecode(text.partition(b"\0")[0])

    @staticmethod
    def _memory(pid: int, address: int, length: int) -> bytes:
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(length)


if __name__ == "__main__":
    ours, theirs = socket.socketpair()
    with ours, theirs:
        install(theirs)
