"""The process in which a test's S3 server runs: it serves until nobody holds the lock file any more.

Run as `python -m support.s3_keeper <kind> <folder> <lock file> <socket or -> <keep>`. Whoever uses the server holds the
lock file shared; the system lets go of that when a process ends, however it ends. Then lock file and folder go too.
Nothing of this runs in the tests' own processes.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

IMAGE = "docker.io/chrislusf/seaweedfs:4.47"
"""What a container runs: an S3 server that is maintained, free and knows conditional writes."""
_PORT = 8333

KEY, SECRET, REGION, BUCKET = "coatcheck", "coatcheck-secret", "us-east-1", "coatcheck"


def ministack(folder: Path, fd: int, *, keep: bool) -> None:
    """Serve MiniStack's S3 and nothing else of it; with `keep` the objects are files and outlive the process."""
    settings = {
        "SERVICES": "s3",
        "LOG_LEVEL": "ERROR",
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "MINISTACK_HOST": "127.0.0.1",
        "S3_PERSIST": "1" if keep else "0",
        "S3_DATA_DIR": str(folder / "objects"),
        "STATE_DIR": str(folder / "state"),
        "DOCKER_HOST": f"unix://{folder}/no-engine",
    }
    os.environ.update(settings)  # noqa: TID251 - how MiniStack is told anything
    from hypercorn import Config  # noqa: PLC0415 - only this kind needs it
    from hypercorn import asyncio as hypercorn  # noqa: PLC0415 - as above
    from ministack import app  # noqa: PLC0415 - reads the settings above

    config = Config()
    config.bind = [f"fd://{fd}"]
    config.loglevel = "ERROR"
    asyncio.run(cast("Any", hypercorn).serve(cast("Any", app).app, config))


def moto(fd: int) -> None:
    """Serve moto's S3 from memory."""
    from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app  # noqa: PLC0415 - only this kind
    from werkzeug.serving import make_server  # noqa: PLC0415 - as above

    class Quiet(MotoRequestHandler):
        """Logs no request."""

        def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002, ANN401 - werkzeug's own signature
            """Nothing."""

    application = cast("Any", create_backend_app)("s3")
    make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet, fd=fd).serve_forever()


def container(ended: threading.Event) -> None:
    """Run the image, say where it listens, and remove it in the end."""
    import boto3  # noqa: PLC0415 - only this kind needs it
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - as above
    from testcontainers.core.wait_strategies import HttpWaitStrategy  # noqa: PLC0415 - as above

    environment = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    image = cast("Any", DockerContainer)(IMAGE).with_command("server -s3 -dir=/data").with_envs(**environment)
    image = image.with_exposed_ports(_PORT).waiting_for(HttpWaitStrategy(_PORT, "/healthz"))
    with image as running:
        host = running.get_container_host_ip().replace("localhost", "127.0.0.1")
        endpoint = f"http://{host}:{running.get_exposed_port(_PORT)}"
        client = cast("Any", boto3).client(
            "s3", endpoint_url=endpoint, region_name=REGION, aws_access_key_id=KEY, aws_secret_access_key=SECRET
        )
        client.create_bucket(Bucket=BUCKET)
        print(endpoint, flush=True)  # noqa: T201 - how the address is handed over
        ended.wait()


def _when_unused(folder: str, lock: str, then: Callable[[], None]) -> None:
    fcntl.flock(os.open(lock, os.O_RDWR | os.O_CLOEXEC), fcntl.LOCK_EX)
    # Who comes now waits for a lock file that has no name any more, and begins anew.
    for used in (Path(lock), Path(lock).with_suffix(".start")):
        used.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # another kind of server may still use it
        Path(lock).parent.rmdir()
    then()


def main(kind: str, folder: str, lock: str, fd: str, keep: str) -> None:
    """Serve until the lock file is free."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests' own business
    ended = threading.Event()
    then = ended.set if kind == "container" else lambda: os._exit(0)
    threading.Thread(target=_when_unused, args=(folder, lock, then), daemon=True).start()
    if kind == "container":
        container(ended)
    elif kind == "moto":
        moto(int(fd))
    else:
        ministack(Path(folder), int(fd), keep=keep == "keep")


def listening(port: int = 0) -> socket.socket:
    """A socket that a server can be given: who connects early waits in its queue, so that nobody has to poll."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(256)
    return listener


if __name__ == "__main__":
    main(*sys.argv[1:])
