"""Show what an administrator looks at first: what happened hour by hour, which sessions are busy, what expires next."""

from dataclasses import dataclass
from datetime import timedelta

from msgspec.structs import replace

from coatcheck.core.artifact import Artifact, Caller
from coatcheck.core.keys import ADMIN, EVERYWHERE, is_everywhere
from coatcheck.ports.clock import Clock
from coatcheck.ports.overview import ActivityHour, Overview, SessionSummary
from coatcheck.storing.redaction import RedactionPolicy
from coatcheck.upkeep.note_accounts import NoteAccounts

_LISTED = 50
"""Rows fetched for a list of which the caller may see only some."""

_EXAMINED = 1_000
"""Latest sessions of a namespace among which those of a caller who is bound to sessions are looked for."""


@dataclass(frozen=True)
class ShowOverview:
    """Shows what happened and what expires next, as far as the caller may see it."""

    overview: Overview
    clock: Clock
    note: NoteAccounts
    redacting: RedactionPolicy | None = None

    async def activity(self, caller: Caller, days: int) -> list[ActivityHour]:
        """Returns the hours in which anything happened in the caller's namespace; in any, for who administers all.

        A caller who is bound to sessions sees none, because the sums include what others did.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`.
        """
        if caller.session_prefix is not None:
            return []
        await self.note()
        everywhere = ADMIN in caller.scopes and is_everywhere(caller)
        return await self.overview.activity(
            EVERYWHERE if everywhere else caller.namespace, self.clock.now() - timedelta(days=days)
        )

    async def sessions(self, caller: Caller, limit: int = _LISTED) -> list[SessionSummary]:
        """Returns the sessions with the latest activity.

        Raises:
            CoatcheckError: `storage_full`, `storage_unavailable`.
        """
        await self.note()
        examined = limit if caller.session_prefix is None else _EXAMINED
        summaries = await self.overview.recent_sessions(caller.namespace, limit=examined)
        visible_sessions = [each for each in summaries if caller.sees(each.session)][:limit]
        if self.redacting is None:
            return visible_sessions
        return [
            replace(each, session=self.redacting.session(caller.namespace, each.session)) for each in visible_sessions
        ]

    async def expiring(self, caller: Caller, limit: int) -> list[Artifact]:
        """Returns the artifacts that expire next.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        artifacts = await self.overview.next_expiring(
            caller.namespace, self.clock.now(), limit=limit if caller.session_prefix is None else _LISTED
        )
        visible_artifacts = [each for each in artifacts if caller.sees(each.declared.session)][:limit]
        return (
            visible_artifacts
            if self.redacting is None
            else list(map(self.redacting.mask_listed_artifact, visible_artifacts))
        )
