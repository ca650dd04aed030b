"""Show what a session's tokens came to."""

from coatcheck.core.artifact import Caller
from coatcheck.core.session_usage import SessionUsage, UsageDelta
from coatcheck.ports.session_accounts import SessionAccounts
from coatcheck.upkeep.note_accounts import NoteAccounts


class ShowSessionUsage:
    """Shows a session's account, as of now in this process and as of a second ago in others."""

    def __init__(self, accounts: SessionAccounts, note: NoteAccounts) -> None:
        self._accounts = accounts
        self._note = note

    async def __call__(self, caller: Caller, session: str) -> SessionUsage:
        """The account of a session; an empty one where nothing was counted, or where the caller does not see it.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`.
        """
        await self._note()
        found = await self._accounts.session_usage(caller.namespace, session) if caller.sees(session) else None
        return found or SessionUsage(spent=UsageDelta(), since=None, at=None)
