"""Bring the API reference's program to another release of Swagger UI.

    npm pack swagger-ui-dist@5.35.0
    python maintenance/update_api_reference.py swagger-ui-dist-5.35.0.tgz

The archive is unpacked; nothing in it is run. The two files that browsers need are written compressed, the licences of
what they contain beside them, and their pin in `api/reference/routes.py`. Look at the licence of the release, and at
NOTICE, before committing.
"""

import argparse
import gzip
import hashlib
import json
import re
import sys
import tarfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TARGET: Final = ROOT / "service/coatcheck/api/reference/assets"
PIN: Final = ROOT / "service/coatcheck/api/reference/routes.py"
LICENCES: Final = "swagger-ui-bundle.js.LICENSE.txt"
FILES: Final = ("swagger-ui-bundle.js", "swagger-ui.css")


def member(archive: tarfile.TarFile, name: str) -> bytes:
    """The bytes of a file of the package.

    Raises:
        KeyError: the package has no such file.
    """
    file = archive.extractfile(f"package/{name}")
    if file is None:
        raise KeyError(name)
    return file.read()


def main() -> None:
    """Unpack, compress, pin."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    pin = PIN.read_text(encoding="utf-8")
    with tarfile.open(parser.parse_args().archive) as archive:
        version = json.loads(member(archive, "package.json"))["version"]
        pin = re.sub(r'VERSION: Final = ".*"', f'VERSION: Final = "{version}"', pin)
        for name in FILES:
            data = member(archive, name)
            (TARGET / f"{name}.gz").write_bytes(gzip.compress(data, 9, mtime=0))
            pin = re.sub(rf'("{re.escape(name)}": )"[0-9a-f]*"', rf'\1"{hashlib.sha256(data).hexdigest()}"', pin)
        (TARGET / LICENCES).write_bytes(member(archive, LICENCES))
    PIN.write_text(pin, encoding="utf-8")
    sys.stdout.write(f"Swagger UI {version}. Update NOTICE, then run tests/api/test_reference.py.\n")


if __name__ == "__main__":
    main()
