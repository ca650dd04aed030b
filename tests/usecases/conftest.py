"""The use cases, opened anew for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.harness import Harness, harness_in


@pytest.fixture
def harness(tmp_path: Path, template: Path) -> Iterator[Harness]:
    with harness_in(tmp_path, template) as opened:
        yield opened
