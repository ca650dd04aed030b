"""Masks the secrets of a payload according to policy: when it is read, and, if the policy says so, before it is stored.

Every read passes through `RedactionPolicy`: content, names and sections are masked before any part is selected or
shown. Reads follow the present policy, not the policy at the time of storing. If nothing is masked, this costs one
look-up of the policies.

If secrets must not be stored, `RedactedIngest` masks them while the payload arrives, or refuses the payload. The policy
must be known before the first byte. If fields of a form that follow the form's file lead to such a policy, the payload
can only be refused. Without such a policy, no payload is searched.
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
"""Size of the cache of the secrets found in each frame, so that later reads do not search the frame again."""
_LOOP_BYTES: Final = 16 * 1024
"""Maximum bytes that are searched on the event loop (some 200 us): a hand-over to a thread takes as long."""


class RedactionPolicy:
    """Decides by policy whether the secrets of a payload are masked, and masks them in its artifact and its content."""

    def __init__(
        self,
        default: Redaction,
        masks: Callable[[], Mask],
        pool: Executor,
        rules: Callable[[], Rules] = lambda: NO_RULES,
    ) -> None:
        """Creates a policy.

        Args:
            default: the mode for payloads for which no policy sets one.
            masks: returns the mask, and creates it at the first call.
            pool: searches for secrets in large contents.
            rules: returns the present policies.
        """
        self._default: Redaction = default
        self._masks = masks
        self._pool = pool
        self._rules = rules
        self._known: BoundedCache[tuple[str, int], list[SecretRange]] = BoundedCache("secrets", _KNOWN_BYTES)

    @property
    def never(self) -> bool:
        """Whether no payload is masked: the default is `off` and there are no policies."""
        return self._default == "off" and not self._rules()

    def mode(self, namespace: str, about: DeclaredMetadata, kind: str | None = None) -> Redaction:
        """Returns the redaction mode that a namespace's policies set for a payload."""
        rules = self._rules()
        if not rules:
            return self._default
        return value_or(rules.of_payload(namespace, about, kind).redaction, self._default)

    def mask(self, namespace: str, about: DeclaredMetadata, kind: str | None = None) -> Mask | None:
        """Returns the mask for a payload that is shown; None: nothing is masked."""
        return None if self.mode(namespace, about, kind) == "off" else self._masks()

    def mask_of(self, artifact: Artifact) -> Mask | None:
        """Returns the mask for an artifact; None: nothing is masked."""
        return self.mask(artifact.namespace, artifact.declared, artifact.facts.kind)

    def artifact(self, artifact: Artifact) -> Artifact:
        """Returns an artifact with secrets in its names masked, if the policy masks them."""
        mask = self.mask_of(artifact)
        return artifact if mask is None else artifact_of(mask, artifact)

    def mask_listed_artifact(self, artifact: Artifact) -> Artifact:
        """Returns an artifact as lists show it: with its session masked, too."""
        # Elsewhere the session's real name is shown, because callers filter and delete by it.
        masked_artifact, session = self.artifact(artifact), artifact.declared.session
        name = None if session is None else self.session(artifact.namespace, session)
        return (
            masked_artifact
            if name == session
            else replace(masked_artifact, declared=replace(masked_artifact.declared, session=name))
        )

    def session(self, namespace: str, session: str) -> str:
        """Returns a session's name as lists show it, with secrets masked. SessionNames finds the real name again."""
        mask = self.mask(namespace, DeclaredMetadata(session=session))
        return session if mask is None else mask.text(session)

    def resolve_labels(self, namespace: str, about: DeclaredMetadata, kind: str | None) -> tuple[str, ...]:
        """Returns the labels in `about` as they are to be stored, with secrets masked if the policy says so.

        Raises:
            CoatcheckError: `secret_refused` if a label contains a secret that the policy refuses.
        """
        mode = self.mode(namespace, about, kind)
        if mode not in BEFORE:
            return about.labels
        return _mask_names(self._masks(), DeclaredMetadata(labels=about.labels), refuse=mode == "refuse").labels

    def mask_entry(self, entry: FoundArtifact) -> FoundArtifact:
        """Returns a found artifact with secrets in its names masked, if the policy masks them."""
        masked_artifact = self.artifact(entry.artifact)
        return entry if masked_artifact is entry.artifact else replace(entry, artifact=masked_artifact)

    def content(self, content: Content, mask: Mask, *, text: bool) -> Content:
        """Returns content in which fillers replace secrets. A filler has the size of its secret, so positions stay.

        If `text` is true, DEL bytes of the payload itself are replaced, too, because fillers begin with this byte; in
        binary content they stay.
        """
        return content.apply_mask(_MaskedReader(mask, self._known, self._pool, text=text))


class _MaskedReader:
    """Hides the secrets in content that is read.

    A frame is always searched together with the same margins, so that every read finds the same secrets in this frame.
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
        """Returns the bytes from `start` to before `end`, both within the content, with fillers in place of secrets."""
        width = content.index.frame_size
        first, last = start // width, (end - 1) // width + 1
        # This ID has the suffix of masked content.
        key = content.blob.id
        secrets = [self._secrets_cache.get((key, frame)) for frame in range(first, last)]
        # If the secrets of all frames are known, only the requested bytes are read. Otherwise whole frames are read,
        # with a margin on both sides in which a secret may begin or end.
        if all(each is not None for each in secrets):
            data, at = await content.plain(start, end), start
        else:
            at = max(0, first * width - MARGIN)
            data = await content.plain(at, min(content.size, last * width + MARGIN))
            secrets = await self._search_frames(content, data, at, range(first, last))
        # A secret that lies across two frames is in the lists of both, and must be replaced only once.
        hidden = sorted({secret for each in secrets if each for secret in each})
        block = data[start - at : end - at]
        return fill(block, hidden, start, text=self._text)

    async def _search_frames(
        self, content: Content, data: bytes, at: int, frames: range
    ) -> list[list[SecretRange] | None]:
        if len(data) <= _LOOP_BYTES:
            secrets = self._find(content, data, at, frames)
        else:
            secrets = await in_pool(self._pool, self._find, content, data, at, frames)
        return secrets

    def _find(self, content: Content, data: bytes, at: int, frames: range) -> list[list[SecretRange] | None]:
        width, size = content.index.frame_size, content.size
        out: list[list[SecretRange] | None] = []
        for frame in frames:
            low, high = max(0, frame * width - MARGIN), min(size, (frame + 1) * width + MARGIN)
            # The beginning and the end of the content are real boundaries of words. The edges of a margin are not, and
            # the search must be told so.
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
"""Redaction modes in which a payload is searched for secrets before its bytes are stored."""


class RedactedIngest:
    """Keeps the secrets of one payload from being stored, if its policy says so: masks them, or refuses the payload."""

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
        """The secrets that were masked before storing; None: nothing was masked."""
        masked = None if self._redactor is None else self._redactor.masked_secrets
        return masked if masked is not None and masked.count else None

    @property
    def notice(self) -> str | None:
        """A sentence for the caller about the masked secrets; None: nothing was masked."""
        masked = self.masked_secrets
        return None if masked is None else f"{self.mask_summary}: the policy keeps secrets from being stored."

    @property
    def mask_summary(self) -> str:
        """Number and kinds of the masked secrets in words, as the artifact records them; empty if there are none."""
        masked = self.masked_secrets
        return "" if masked is None else f"{masked.sentence()} masked before it was stored"

    async def whole(self, payload: bytes) -> bytes:
        """Returns the bytes to store for a payload that is completely in memory.

        Raises:
            CoatcheckError: `secret_refused` if the payload contains a secret that the policy refuses, or that cannot be
                masked because it is in encoded text.
        """
        redactor = self._redactor
        if redactor is None:
            return payload
        return await in_pool(self._pool, lambda: self._feed(redactor, payload) + self._end(redactor))

    def _feed(self, redactor: RedactingStream, data: bytes) -> bytes:
        out = redactor.feed(data)
        # The search of decoded text gets the masked bytes, so that it finds only secrets that the stream cannot see.
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
        """Whether the text view of the payload must be searched for secrets before the payload is stored."""
        return self._text is not None

    async def check_text(self, text: bytes) -> None:
        """Searches the text view of the payload for secrets; call it if `searches_text` is true.

        Raises:
            CoatcheckError: `secret_refused` if the text contains a secret.
        """
        if self._text is not None:
            await in_pool(self._pool, self._text.check, text)

    def through(self, source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yields the bytes to store for a payload that `source` yields.

        Raises:
            CoatcheckError: `secret_refused`, during the iteration.
        """
        return source if self._redactor is None else self._mask_stream(source, self._redactor)

    async def _mask_stream(self, source: AsyncIterator[bytes], redactor: RedactingStream) -> AsyncIterator[bytes]:
        async for data in source:
            is_small = len(data) <= _LOOP_BYTES
            out = self._feed(redactor, data) if is_small else await in_pool(self._pool, self._feed, redactor, data)
            if out:
                yield out
        out = await in_pool(self._pool, self._end, redactor)
        if out:
            yield out

    def resolve_declared(self, declared: DeclaredMetadata) -> DeclaredMetadata:
        """Returns the complete declared metadata as it is to be stored, with secrets masked if the policy says so.

        Raises:
            CoatcheckError: `secret_refused` if the metadata contains a secret that the policy refuses, or that cannot
                be masked; `invalid_request` if the metadata leads to a policy that keeps secrets from being stored in
                another way than the policy under which the payload was received.
        """
        mode = self._redacting.mode(self._namespace, declared)
        # The bytes have arrived without the search that this mode needs, so the payload can only be refused.
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
    # The session stays as it was, because requests name it. It contains no secret, as was checked above.
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
