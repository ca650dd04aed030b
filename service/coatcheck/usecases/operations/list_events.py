"""List what was done with an artifact or in a session: who read what, what it cost, what a compaction replaced."""

from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.artifact import Caller, DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.event import Event
from coatcheck.core.redact.mask import Mask
from coatcheck.ports.session_accounts import SessionAccounts
from coatcheck.storing.redaction import RedactionPolicy
from coatcheck.storing.session_names import SessionNames
from coatcheck.upkeep.note_accounts import NoteAccounts


class EventPage(Struct, frozen=True):
    """Events, and where the next page begins; None: there is none."""

    events: list[Event]
    next: int | None


class ListEvents:
    """Lists events, as of now in this process and as of a second ago in others."""

    def __init__(
        self,
        accounts: SessionAccounts,
        note: NoteAccounts,
        redacting: RedactionPolicy | None = None,
        session_names: SessionNames | None = None,
    ) -> None:
        """`redacting` masks secrets in callers' requests, if the policy masks them in what they read."""
        self._accounts = accounts
        self._note = note
        self._redacting = redacting
        self._session_names = session_names

    async def __call__(
        self,
        caller: Caller,
        *,
        session: str | None = None,
        artifact: int | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> EventPage:
        """Returns the events of a session, of an artifact, or of both, latest first, as far as the caller may see them.

        Raises:
            CoatcheckError: `invalid_request` without a session and an artifact; `storage_full`, `storage_unavailable`.
        """
        if session is None and artifact is None:
            raise CoatcheckError(Code.INVALID_REQUEST, "Name a session, an artifact, or both.", parameter="session")
        await self._note()
        if session is not None and self._session_names is not None:
            session = await self._session_names.real(caller, session)
        events = await self._accounts.events(
            caller.namespace, session=session, artifact=artifact, before=before, limit=limit
        )
        visible_events = [self._mask_event(each) for each in events if caller.sees(each.session)]
        return EventPage(visible_events, events[-1].number if len(events) == limit else None)

    def _mask_event(self, event: Event) -> Event:
        if self._redacting is None:
            return event
        mask = self._redacting.mask(event.namespace, DeclaredMetadata(session=event.session))
        if mask is None:
            return event
        session = None if event.session is None else mask.text(event.session)
        return replace(event, session=session, details=_mask_value(event.details, mask))


def _mask_value(value: Any, mask: Mask) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        return mask.text(value)
    if isinstance(value, dict):
        return {name: _mask_value(each, mask) for name, each in cast("dict[str, Any]", value).items()}
    return [_mask_value(each, mask) for each in cast("list[Any]", value)] if isinstance(value, list) else value
