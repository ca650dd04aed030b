"""Checks whether other users of the machine can read a store's files. Group permissions are up to the administrator."""

import asyncio
import stat
from datetime import datetime
from pathlib import Path

from coatcheck.core.findings import EngineReport, Finding


class ExposureExamination:
    """Examines a data directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def __call__(self, *, deep: bool, repair: datetime | None) -> EngineReport:  # noqa: ARG002 - one look serves both
        """Examines the directory; with `repair`, removes others' permissions."""
        return await asyncio.to_thread(self._examine, repair is not None)

    def _examine(self, repair: bool) -> EngineReport:
        mode = stat.S_IMODE(self._root.stat().st_mode)
        if not mode & stat.S_IRWXO:
            return EngineReport()
        detail = f"Everyone on this machine can enter {self._root} (mode {mode:o})."
        if repair:
            self._root.chmod(mode & ~stat.S_IRWXO)
            detail += f" It is {mode & ~stat.S_IRWXO:o} now."
        else:
            detail += f" Close it with: chmod o= {self._root}"
        return EngineReport(findings=(Finding("exposed", "", "", detail, repaired=repair),))
