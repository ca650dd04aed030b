"""The files of the API reference: Swagger UI as released, compressed, and a script of ours that sets its options.

`maintenance/update_api_reference.py` installs another release.
"""

import gzip
from functools import cache
from importlib.resources import files
from typing import Final

VERSION: Final = "5.35.0"
"""Version of Swagger UI."""
SHA256: Final = {
    "swagger-ui-bundle.js": "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
    "swagger-ui.css": "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
}
"""Digests of its two files, unpacked."""
SCRIPT: Final = "swagger-ui-bundle.js"
STYLE: Final = "swagger-ui.css"
OPTIONS: Final = "reference.js"
NAMES: Final = (SCRIPT, STYLE, OPTIONS)
_MEDIA_TYPES: Final = {"js": "text/javascript", "css": "text/css"}


def media_type(name: str) -> str:
    """Returns the media type of one of `NAMES`."""
    return _MEDIA_TYPES[name.rpartition(".")[2]]


@cache
def read_compressed(name: str) -> bytes:
    """Returns one of `NAMES` as a gzip file."""
    folder = files("coatcheck.api.reference").joinpath("assets")
    if name == OPTIONS:
        return gzip.compress(folder.joinpath(name).read_bytes(), 9, mtime=0)
    return folder.joinpath(f"{name}.gz").read_bytes()


def plain(name: str) -> bytes:
    """Returns the bytes of one of `NAMES`, for clients that do not accept gzip."""
    return gzip.decompress(read_compressed(name))
