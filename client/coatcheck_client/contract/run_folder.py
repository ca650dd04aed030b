"""Names of the files by which programs find the service of a data directory, and it tells that they are there."""

from typing import Final

HTTP_SOCKET: Final = "http.sock"
"""Unix socket in a run folder on which an embedded service answers requests."""
LIFELINE_SOCKET: Final = "lifeline.sock"
"""Unix socket in a run folder on which a program keeps one connection for as long as it needs the service. The service
writes one line of JSON into it: `version` and `pid`."""
ADDRESS_FILE: Final = "coatcheck.address"
"""File in a data directory that is being served, one JSON object: `url`, or the `run_folder` of an embedded
service; and `version` and `pid`."""
