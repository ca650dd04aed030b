# ruff: noqa: INP001 - a script, not a package
"""Whether the service in this container answers: exit code 0 or 1, for the image's HEALTHCHECK.

It asks for liveness. A container whose storage is down must not be restarted for that: it serves what it can.
"""

import os
import sys
import urllib.error
import urllib.request

if __name__ == "__main__":
    port = os.environ.get("COATCHECK_PORT", "8321")  # noqa: TID251 - it runs beside the service, not in it
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/live", timeout=4) as answer:
            sys.exit(answer.status != 200)  # noqa: PLR2004 - HTTP's "OK"
    except (urllib.error.URLError, OSError):
        sys.exit(1)
