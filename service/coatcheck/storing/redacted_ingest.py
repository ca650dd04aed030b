"""Payloads whose secrets must not be stored: masked or refused on their way in, by the present policy.

Whatever decides must be known before the first byte: what follows a form's file can only be refused. Without such a
policy, nothing is searched.
"""

from collections.abc import AsyncIterator
from concurrent.futures import Executor
from typing import Final

from msgspec.structs import replace

from coatcheck.core.artifact import DeclaredMetadata
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policies.policy import Redaction
from coatcheck.core.redact.mask import Mask, MaskedSecrets
from coatcheck.core.redact.masked_artifact import NAMES, mask_declared
from coatcheck.core.redact.redacting_stream import RedactingStream, refusal_of_name
from coatcheck.core.redact.text_search import TextSearch
from coatcheck.runtime.pool import in_pool
from coatcheck.storing.redaction import RedactionPolicy

BEFORE: Final = frozenset({"stored", "refuse"})
"""What must happen before a byte is stored."""
_HERE: Final = 16 * 1024


class RedactedIngest:
    """One payload on its way in, under a policy that may keep secrets from being stored."""

    def __init__(
        self, redacting: RedactionPolicy | None, namespace: str, declared: DeclaredMetadata | None, pool: Executor
    ) -> None:
        """`declared` is the metadata that is known before the first byte."""
        self._redacting = redacting
        self._namespace = namespace
        self._pool = pool
        self._mode: Redaction = "off"
        self._redactor: RedactingStream | None = None
        self._text: TextSearch | None = None
        if redacting is not None and declared is not None:
            self._mode = redacting.mode(namespace, declared)
            mask = redacting.mask(namespace, declared) if self._mode in BEFORE else None
            if mask is not None:
                self._redactor = RedactingStream(mask, refuse=self._mode == "refuse")
                self._text = TextSearch(mask, declared.media_type)

    @property
    def masked_secrets(self) -> MaskedSecrets | None:
        """What was masked before storing; None: nothing."""
        masked = None if self._redactor is None else self._redactor.masked_secrets
        return masked if masked is not None and masked.count else None

    @property
    def notice(self) -> str | None:
        """What was masked, as a sentence for the caller; None: nothing."""
        masked = self.masked_secrets
        return None if masked is None else f"{self.mask_summary}: the policy keeps secrets from being stored."

    @property
    def mask_summary(self) -> str:
        """What was masked, as the artifact records it; empty if nothing was."""
        masked = self.masked_secrets
        return "" if masked is None else f"{masked.sentence()} masked before it was stored"

    async def whole(self, payload: bytes) -> bytes:
        """Returns the bytes to store of a payload that is completely in memory.

        Raises:
            CoatcheckError: `secret_refused`.
        """
        redactor = self._redactor
        if redactor is None:
            return payload
        return await in_pool(self._pool, lambda: self._feed(redactor, payload) + self._end(redactor))

    def _feed(self, redactor: RedactingStream, data: bytes) -> bytes:
        out = redactor.feed(data)
        if self._text is not None:
            self._text.feed(out)
        return out

    def _end(self, redactor: RedactingStream) -> bytes:
        out = redactor.end()
        if self._text is not None:
            self._text.feed(out)
            self._text.end()
        return out

    @property
    def searches_text(self) -> bool:
        """Whether the text of a page or a document is to be searched before it is stored."""
        return self._text is not None

    async def check_text(self, text: bytes) -> None:
        """Searches that text.

        Raises:
            CoatcheckError: `secret_refused`.
        """
        if self._text is not None:
            await in_pool(self._pool, self._text.check, text)

    def through(self, source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yields the bytes to store.

        Raises:
            CoatcheckError: `secret_refused` on the way.
        """
        return source if self._redactor is None else self._mask_stream(source, self._redactor)

    async def _mask_stream(self, source: AsyncIterator[bytes], redactor: RedactingStream) -> AsyncIterator[bytes]:
        async for data in source:
            is_small = len(data) <= _HERE
            out = self._feed(redactor, data) if is_small else await in_pool(self._pool, self._feed, redactor, data)
            if out:
                yield out
        out = await in_pool(self._pool, self._end, redactor)
        if out:
            yield out

    def resolve_declared(self, declared: DeclaredMetadata) -> DeclaredMetadata:
        """Returns the declared metadata to store, now that all of it is known.

        Raises:
            CoatcheckError: `secret_refused`; `invalid_request` if the policy became known too late.
        """
        if self._redacting is None:
            return declared
        mode = self._redacting.mode(self._namespace, declared)
        if mode in BEFORE and mode != self._mode:
            raise CoatcheckError(
                Code.INVALID_REQUEST,
                "A policy forbids storing the secrets in this payload, which was discovered too late: put 'session', "
                "'tool_name', 'kind' and 'labels' before the file in the form.",
            )
        mask = self._redacting.mask(self._namespace, declared) if self._mode in BEFORE else None
        if mask is None:
            return declared
        return _mask_names(mask, declared, refuse=self._mode == "refuse")


def _mask_names(mask: Mask, declared: DeclaredMetadata, *, refuse: bool) -> DeclaredMetadata:
    if declared.session is not None and mask.text(declared.session) != declared.session:
        raise refusal_of_name("it is an address, which cannot be masked", "session")
    clean = mask_declared(mask, declared)
    if clean is declared or not refuse:
        return replace(clean, session=declared.session)
    for field in (*NAMES, "labels"):
        was = getattr(declared, field)
        if was != getattr(clean, field):
            texts = declared.labels if field == "labels" else (str(was),)
            secrets = [secret for text in texts for secret in mask.find(text.encode("utf-8", "surrogatepass"))]
            raise refusal_of_name(mask.names[secrets[0].rule] if secrets else "cut off", field)
    return declared
