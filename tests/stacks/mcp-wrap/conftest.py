"""What these tests have from npm: servers, and the protocol's conformance suite."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # of the bridge


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """Where the programs from npm are; without npm the tests fail."""
    subprocess.run(["npm", "ci", "--silent"], cwd=HERE, check=True)
    return HERE / "node_modules" / ".bin"
