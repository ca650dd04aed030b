"""Sessions by the names that lists show, in which secrets are masked: filters and links take either name."""

from typing import Final

from coatcheck.core.artifact import Caller
from coatcheck.ports.overview import Overview
from coatcheck.storing.redaction import RedactionPolicy

_MARKER: Final = "[redacted"
_SEARCHED: Final = 5_000
"""Sessions with the latest activity among which a shown name is looked for."""


class SessionNames:
    """Finds the session that a list shows by a masked name."""

    def __init__(self, overview: Overview, redacting: RedactionPolicy) -> None:
        self._overview = overview
        self._redacting = redacting

    async def real(self, caller: Caller, name: str) -> str:
        """Returns the session's real name, if exactly one session of the caller's is shown by this name.

        A session is found about a second after its first artifact. Any other name is returned as it is.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        if _MARKER not in name:
            return name
        recent = await self._overview.recent_sessions(caller.namespace, limit=_SEARCHED)
        matching_sessions = [
            each.session
            for each in recent
            if caller.sees(each.session) and self._redacting.session(caller.namespace, each.session) == name
        ]
        return matching_sessions[0] if len(matching_sessions) == 1 else name
