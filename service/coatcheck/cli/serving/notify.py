"""Tells a service manager (systemd, `Type=notify`) the state of the service. Does nothing if nobody listens."""

import logging
import os
import socket

SOCKET = "NOTIFY_SOCKET"

log = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Sends a state such as `READY=1` to the socket that the variable SOCKET names; a failure is only logged."""
    address = os.environ.get(SOCKET, "")  # noqa: TID251 - the manager's protocol, no setting
    if not address:
        return
    if address.startswith("@"):  # an abstract name
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.connect(address)
            manager.sendall(state.encode())
    except OSError as error:
        log.warning("the service manager cannot be told %s: %s", state, error)
