"""Show a session's totals of tokens."""

from coatcheck.core.artifact import Caller
from coatcheck.core.session_usage import SessionUsage, UsageDelta
from coatcheck.ports.session_accounts import SessionAccounts
from coatcheck.storing.session_names import SessionNames
from coatcheck.upkeep.note_accounts import NoteAccounts


class ShowSessionUsage:
    """Shows a session's account: what this process did up to now, and what others did up to a second ago."""

    def __init__(
        self, accounts: SessionAccounts, note: NoteAccounts, session_names: SessionNames | None = None
    ) -> None:
        self._accounts = accounts
        self._note = note
        self._session_names = session_names

    async def __call__(self, caller: Caller, session: str) -> SessionUsage:
        """Returns the account of a session; an empty one if nothing was counted or the caller may not see the session.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`.
        """
        await self._note()
        if self._session_names is not None:
            session = await self._session_names.real(caller, session)
        usage = await self._accounts.session_usage(caller.namespace, session) if caller.sees(session) else None
        return usage or SessionUsage(spent=UsageDelta(), since=None, at=None)
