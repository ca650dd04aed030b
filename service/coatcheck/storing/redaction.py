"""Which policy masks the secrets of one payload, in what is shown of it and before it is stored.

All reading passes through here: content, names and sections, before anything is cut or shown. Reads follow the present
policy, whatever was decided when a payload was stored. If nothing is masked, the cost is one look-up of the policies.

Secrets that must not be stored are masked or refused on their way in. Whatever decides must be known before the first
byte: what follows a form's file can only be refused. Without such a policy, nothing is searched.
"""

from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from typing import Final

from msgspec.structs import replace

from coatcheck.core.artifact import Artifact, DeclaredMetadata
from coatcheck.core.caches import BoundedCache
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.policies.policy import NO_RULES, Redaction, Rules, value_or
from coatcheck.core.redact.filler import SecretRange, fill
from coatcheck.core.redact.find import MARGIN
from coatcheck.core.redact.mask import Mask, MaskedSecrets, RedactingStream, TextSearch, refusal_of_name
from coatcheck.core.redact.masked_artifact import NAMES, artifact_of, mask_declared
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.runtime.work_placement import in_pool
from coatcheck.storing.content import Content

_KNOWN_BYTES: Final = 4 * 1024 * 1024
"""Size of the cache of secrets found in frames, so that reading on does not search them again."""
_HERE: Final = 16 * 1024
"""Bytes that are searched on the event loop (some 200 us); handing them to a thread costs as much."""


class RedactionPolicy:
    """Decides what is masked in what is shown of a payload, by its policy."""

    def __init__(
        self,
        default: Redaction,
        masks: Callable[[], Mask],
        pool: Executor,
        rules: Callable[[], Rules] = lambda: NO_RULES,
    ) -> None:
        """`default` is the mode if no policy sets one; `masks` creates the mask when it is first needed."""
        self._default: Redaction = default
        self._masks = masks
        self._pool = pool
        self._rules = rules
        self._known: BoundedCache[tuple[str, int], list[SecretRange]] = BoundedCache("secrets", _KNOWN_BYTES)

    @property
    def never(self) -> bool:
        """Whether nothing is masked, whatever the payload."""
        return self._default == "off" and not self._rules()

    def mode(self, namespace: str, about: DeclaredMetadata, kind: str | None = None) -> Redaction:
        """Returns the redaction mode that a namespace's policies set for a payload."""
        rules = self._rules()
        if not rules:
            return self._default
        return value_or(rules.of_payload(namespace, about, kind).redaction, self._default)

    def mask(self, namespace: str, about: DeclaredMetadata, kind: str | None = None) -> Mask | None:
        """Returns the mask for what is shown of a payload; None: nothing is masked."""
        return None if self.mode(namespace, about, kind) == "off" else self._masks()

    def mask_of(self, artifact: Artifact) -> Mask | None:
        """Returns the mask for an artifact; None: nothing is masked."""
        return self.mask(artifact.namespace, artifact.declared, artifact.facts.kind)

    def artifact(self, artifact: Artifact) -> Artifact:
        """Returns an artifact with its names masked, if they are to be."""
        mask = self.mask_of(artifact)
        return artifact if mask is None else artifact_of(mask, artifact)

    def mask_listed_artifact(self, artifact: Artifact) -> Artifact:
        """Returns an artifact as lists show it: its session masked, too, where it is no address any more."""
        # Elsewhere the session stays real, because callers filter and delete by it.
        masked_artifact, session = self.artifact(artifact), artifact.declared.session
        name = None if session is None else self.session(artifact.namespace, session)
        return (
            masked_artifact
            if name == session
            else replace(masked_artifact, declared=replace(masked_artifact.declared, session=name))
        )

    def session(self, namespace: str, session: str) -> str:
        """Returns a session's name as it is shown; see SessionNames."""
        mask = self.mask(namespace, DeclaredMetadata(session=session))
        return session if mask is None else mask.text(session)

    def mask_entry(self, entry: FoundArtifact) -> FoundArtifact:
        """Returns a found artifact with its names masked, if they are to be."""
        masked_artifact = self.artifact(entry.artifact)
        return entry if masked_artifact is entry.artifact else replace(entry, artifact=masked_artifact)

    def content(self, content: Content, mask: Mask, *, text: bool) -> Content:
        """Returns content with fillers in place of secrets: every byte keeps its place.

        Unless it is `text`, DEL bytes stay.
        """
        return content.apply_mask(_MaskedReader(mask, self._known, self._pool, text=text))


class _MaskedReader:
    """Hides secrets in what is read.

    A frame is always searched with the same surroundings, so that it looks the same in every read.
    """

    suffix = "~masked"

    def __init__(
        self, mask: Mask, secrets_cache: BoundedCache[tuple[str, int], list[SecretRange]], pool: Executor, *, text: bool
    ) -> None:
        self._mask = mask
        self._secrets_cache = secrets_cache
        self._pool = pool
        self._text = text

    async def read(self, content: Content, start: int, end: int) -> bytes:
        """Returns the bytes from `start` to before `end`, both within the content, without its secrets."""
        width = content.index.frame_size
        first, last = start // width, (end - 1) // width + 1
        # The ID carries the suffix of masked content, so these entries are not those of other caches.
        key = content.blob.id
        secrets = [self._secrets_cache.get((key, frame)) for frame in range(first, last)]
        # Secrets of all frames are known: only the requested bytes are read. Otherwise whole frames are, with a margin
        # on both sides in which a secret may begin or end.
        if all(each is not None for each in secrets):
            data, at = await content.plain(start, end), start
        else:
            at = max(0, first * width - MARGIN)
            data = await content.plain(at, min(content.size, last * width + MARGIN))
            secrets = await self._search_frames(content, data, at, range(first, last))
        # A secret across two frames is in both lists, and must be filled once.
        hidden = sorted({secret for each in secrets if each for secret in each})
        block = data[start - at : end - at]
        return fill(block, hidden, start, text=self._text)

    async def _search_frames(
        self, content: Content, data: bytes, at: int, frames: range
    ) -> list[list[SecretRange] | None]:
        if len(data) <= _HERE:
            secrets = self._find(content, data, at, frames)
        else:
            secrets = await in_pool(self._pool, self._find, content, data, at, frames)
        return secrets

    def _find(self, content: Content, data: bytes, at: int, frames: range) -> list[list[SecretRange] | None]:
        width, size = content.index.frame_size, content.size
        out: list[list[SecretRange] | None] = []
        for frame in frames:
            low, high = max(0, frame * width - MARGIN), min(size, (frame + 1) * width + MARGIN)
            # A search that starts at the beginning or ends at the end may treat that as a boundary; a cut in the middle
            # may not.
            matches = self._mask.find(data[low - at : high - at], begins=low == 0, ends=high == size)
            mine = [
                SecretRange(each.start + low, each.end + low, each.rule)
                for each in matches
                if each.start + low < (frame + 1) * width and each.end + low > frame * width
            ]
            self._secrets_cache.put((content.blob.id, frame), mine)
            out.append(mine)
        return out


BEFORE: Final = frozenset({"stored", "refuse"})
"""What must happen before a byte is stored."""


class RedactedIngest:
    """One payload on its way in, under a policy that may keep secrets from being stored."""

    def __init__(self, redacting: RedactionPolicy, namespace: str, declared: DeclaredMetadata, pool: Executor) -> None:
        """`declared` is the metadata that is known before the first byte."""
        self._redacting = redacting
        self._namespace = namespace
        self._pool = pool
        self._mode: Redaction = redacting.mode(namespace, declared)
        self._redactor: RedactingStream | None = None
        self._text: TextSearch | None = None
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
        # The search gets what was masked already, so that it finds only what the stream could not see.
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
        mode = self._redacting.mode(self._namespace, declared)
        # The bytes went through without a search, or a weaker one: refusing is all that is left.
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
    # An address must stay usable, so the session is kept as it was; it was checked above.
    if clean is declared or not refuse:
        return replace(clean, session=declared.session)
    for field in (*NAMES, "labels"):
        was = getattr(declared, field)
        if was != getattr(clean, field):
            texts = declared.labels if field == "labels" else (str(was),)
            # The refusal names the kind of secret and the field, never the secret.
            secrets = [secret for text in texts for secret in mask.find(text.encode("utf-8", "surrogatepass"))]
            raise refusal_of_name(mask.names[secrets[0].rule] if secrets else "cut off", field)
    return declared
