"""Names of the files by which programs find the service of a data directory, and keep it running."""

from typing import Final

HTTP_SOCKET: Final = "http.sock"
"""Unix socket in a run folder on which an embedded service answers requests."""
LIFELINE_SOCKET: Final = "lifeline.sock"
"""Unix socket in a run folder. On it, each program keeps one connection open for as long as it needs the service, which
sends one line of JSON: `version` and `pid`."""
ADDRESS_FILE: Final = "coatcheck.address"
"""File in a data directory that is being served. It contains one JSON object: `version` and `pid`, and either `url` or,
for an embedded service, `run_folder`."""
DIRECTORY_LOCK: Final = "coatcheck.lock"
"""File in a data directory that the service of the directory keeps locked."""
