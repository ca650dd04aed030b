"""The audit as its readers see it: its lines, its head to be kept elsewhere, and whether the chain is whole.

It changes nothing. What it can tell: that a line was changed, removed, inserted or reordered, or that the end was cut
off, by anyone who did not also write the chain anew. Who may change every row of the database can do that from any line
on, with hashes and a head that fit; only a head that was exported before, and kept where they cannot write, shows it.
"""

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Final

from msgspec import Struct

from coatcheck.core.audit import Breach, Chain, Head, SealedAuditLine
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.retention import Retention

_PAGE: Final = 500


class AuditVerification(Struct, frozen=True, kw_only=True):
    """What a verification found."""

    lines: int
    """That follow each other as they were written, from the first on."""
    head: Head
    first_at: datetime | None
    last_at: datetime | None
    breach: Breach | None
    """None: the chain is whole."""
    kept: Head | None
    """The exported head that it was compared with."""


class AuditLog:
    """The verbs."""

    def __init__(self, retention: Retention) -> None:
        self._retention = retention

    async def verify(self, kept: Head | None = None) -> AuditVerification:
        """Verify the chain from its first line to its head, and that it goes on from a head that was kept.

        Lines that are added meanwhile belong to it: the head is read first, and the end is compared with what is
        there then.

        Raises:
            CoatcheckError: `storage_unavailable`.
        """
        stored = await self._retention.audit_head()
        chain = Chain(kept)
        breach: Breach | None = None
        first: datetime | None = None
        last: datetime | None = None
        async for entry in self._entries(stored):
            breach = chain.follow(entry)
            if breach is not None:
                break
            first, last = first or entry.at, entry.at
        if breach is None:
            breach = chain.end(stored)
        return AuditVerification(
            lines=chain.head.seq, head=chain.head, first_at=first, last_at=last, breach=breach, kept=kept
        )

    async def head(self) -> Head:
        """The head, to be kept where who administers the database cannot write.

        Raises:
            CoatcheckError: `integrity` when somebody has removed it; `storage_unavailable`.
        """
        head = await self._retention.audit_head()
        if head is None:
            raise CoatcheckError(Code.INTEGRITY, "The head of the audit was removed. Run `coatcheck audit verify`.")
        return head

    async def lines(
        self,
        *,
        before: int | None = None,
        limit: int,
        namespace: str | None = None,
        run_id: str | None = None,
        action: str | None = None,
    ) -> list[SealedAuditLine]:
        """Lines that meet all conditions, the latest first."""
        return await self._retention.find_audit_lines(
            before=before, limit=limit, namespace=namespace, run_id=run_id, action=action
        )

    async def _entries(self, stored: Head | None) -> AsyncGenerator[SealedAuditLine]:
        """All lines up to the head; without one, or behind it, whatever there is."""
        after = 0
        while page := await self._retention.audit_lines(after=after, limit=_PAGE):
            for entry in page:
                if stored is not None and entry.seq > stored.seq:
                    # Written since the head was read, or put there by somebody: then the head has not moved.
                    moved = await self._retention.audit_head()
                    if moved is not None and moved.seq >= entry.seq:
                        return
                yield entry
            after = page[-1].seq
