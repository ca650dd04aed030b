"""The nursery's own process: `python launch.py nursery FD`. Imports everything once, then forks a service for each
request that comes over the socket. See fork_server.py for who asks, and
injected_faults.py for what can be wrong with a service.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
import traceback
from typing import Any

from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.cli import main
from faults import injected_faults, syscalls

_MOST = 65536
READY = ("uvloop", "uvicorn.protocols.http.httptools_impl", "coatcheck.bootstrap", "coatcheck.api.app")
"""What the commands import when they run."""


def nursery(control: socket.socket) -> None:
    """Answer requests until the harness goes, then take the services along."""
    for name in READY:
        importlib.import_module(name)
    load_tokenizer()
    assert threading.active_count() == 1, "a fork takes one thread along"
    gc.collect()
    gc.freeze()
    children: set[int] = set()
    while True:
        raw, fds, _, _ = socket.recv_fds(control, _MOST, 4)
        if not raw:
            break
        request: dict[str, Any] = json.loads(raw)
        if "wait" in request:
            pid = int(request["wait"])
            children.discard(pid)
            _, status = os.waitpid(pid, 0)
            answer = {"code": os.waitstatus_to_exitcode(status)}
        else:
            pid = _fork(control, request, fds)
            children.add(pid)
            answer = {"pid": pid}
        control.send(json.dumps(answer).encode())
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _fork(control: socket.socket, request: dict[str, Any], fds: list[int]) -> int:
    pid = os.fork()
    if pid:
        for fd in fds:
            os.close(fd)
        return pid
    code = 70
    try:
        control.close()
        code = _run(request, fds)
    except BaseException:  # noqa: BLE001 - this is the end of a process
        traceback.print_exc()
    finally:
        os._exit(code)


def _run(request: dict[str, Any], fds: list[int]) -> int:
    os.dup2(fds[0], 1)
    os.dup2(fds[1], 2)
    for fd in fds[:2]:
        os.close(fd)
    os.environ.update(request["env"])  # noqa: TID251 - the child's environment
    injected_faults.inject(request["faults"])
    if len(fds) > 2:
        with socket.socket(fileno=fds[2]) as listener:
            syscalls.install(listener)
    sys.argv = ["coatcheck", *request["run"]]
    try:
        main()
    except SystemExit as end:
        sys.stdout.flush()
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[2])) as asked:
        nursery(asked)
