"""Payloads whose secrets are not to be stored: masked or refused on their way in, by the policy of the moment.

What decides must be known before the first byte: what comes behind a form's file can only be refused. Nothing is
looked through where neither is the policy.
"""

from collections.abc import AsyncIterator
from concurrent.futures import Executor
from typing import Final

from msgspec.structs import replace

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policy import Redaction
from coatcheck.core.redact.mask import Mask, MaskedSecrets
from coatcheck.core.redact.masked_artifact import said_of
from coatcheck.core.redact.redacting_stream import RedactingStream, refused_name
from coatcheck.runtime.pool import in_pool
from coatcheck.storing.redaction import RedactionPolicy

BEFORE: Final = frozenset({"stored", "refuse"})
"""What must happen before a byte is stored."""
_HERE: Final = 16 * 1024


class RedactedIngest:
    """One payload on its way in, under a policy that may keep secrets from being stored."""

    def __init__(
        self, redacting: RedactionPolicy | None, namespace: str, said: DeclaredMetadata | None, pool: Executor
    ) -> None:
        """Make it; `said` is what is known before the first byte."""
        self._redacting = redacting
        self._namespace = namespace
        self._pool = pool
        self._mode: Redaction = "off"
        self._sieve: RedactingStream | None = None
        if redacting is not None and said is not None:
            self._mode = redacting.mode(namespace, said)
            mask = redacting.mask(namespace, said) if self._mode in BEFORE else None
            self._sieve = None if mask is None else RedactingStream(mask, refuse=self._mode == "refuse")

    @property
    def masked(self) -> MaskedSecrets | None:
        """What was masked before it was stored; None: nothing."""
        masked = None if self._sieve is None else self._sieve.masked
        return masked if masked is not None and masked.count else None

    @property
    def notice(self) -> str | None:
        """What was masked, as a sentence for the caller; None: nothing."""
        masked = self.masked
        return None if masked is None else f"{self.done}: the policy keeps secrets from being stored."

    @property
    def done(self) -> str:
        """What was masked, as the artifact says it; empty where nothing was."""
        masked = self.masked
        return "" if masked is None else f"{masked.sentence()} masked before it was stored"

    async def whole(self, payload: bytes) -> bytes:
        """Returns the bytes to be stored of a payload that is completely in memory.

        Raises:
            CoatcheckError: `secret_refused`.
        """
        sieve = self._sieve
        if sieve is None:
            return payload
        return await in_pool(self._pool, lambda: sieve.feed(payload) + sieve.end())

    def through(self, source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The bytes to be stored.

        Raises:
            CoatcheckError: `secret_refused` on the way.
        """
        return source if self._sieve is None else self._masked(source, self._sieve)

    async def _masked(self, source: AsyncIterator[bytes], sieve: RedactingStream) -> AsyncIterator[bytes]:
        async for data in source:
            out = sieve.feed(data) if len(data) <= _HERE else await in_pool(self._pool, sieve.feed, data)
            if out:
                yield out
        out = await in_pool(self._pool, sieve.end)
        if out:
            yield out

    def said(self, said: DeclaredMetadata) -> DeclaredMetadata:
        """What is to be stored of what was said, now that all of it is known.

        Raises:
            CoatcheckError: `secret_refused`; `invalid_request` where it became known too late what the policy is.
        """
        if self._redacting is None:
            return said
        mode = self._redacting.mode(self._namespace, said)
        if mode in BEFORE and mode != self._mode:
            raise CoatcheckError(
                Code.INVALID_REQUEST,
                "A policy forbids storing the secrets in this payload, which was discovered too late: put 'session', "
                "'tool_name', 'kind' and 'labels' before the file in the form.",
            )
        mask = self._redacting.mask(self._namespace, said) if self._mode in BEFORE else None
        if mask is None:
            return said
        return _named(mask, said, refuse=self._mode == "refuse")


def _named(mask: Mask, said: DeclaredMetadata, *, refuse: bool) -> DeclaredMetadata:
    clean = said_of(mask, said)
    if clean is said or not refuse:
        return replace(clean, session=said.session)
    for field in ("title", "url", "tool_name", "tool_call_id", "media_type", "command", "labels"):
        was = getattr(said, field)
        if was != getattr(clean, field):
            texts = said.labels if field == "labels" else (str(was),)
            found = [secret for text in texts for secret in mask.find(text.encode("utf-8", "surrogatepass"))]
            raise refused_name(mask.names[found[0].rule] if found else "cut off", field)
    return said
