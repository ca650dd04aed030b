"""Administrators' decisions: defaults and limits by scope, which of them apply to a payload, and when it expires.

Values only. What no policy decides is left to the settings; a later policy does not revoke what a receipt has promised.
Fields are refused in scopes where they cannot be enforced: limits of a namespace only exist for namespaces. `expiry` is
the one rule for ingest, reads, changes and sweeps; time is an argument.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from coatcheck.core.artifact import DeclaredMetadata, Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.search.fold import Domains
from coatcheck.core.search.model import BOUNDS as SEARCH_BOUNDS
from coatcheck.core.search.model import Switches

MIN_IDLE_TTL = 60
"""Seconds. Reads are written about every second, so a shorter idle TTL could not be kept exactly."""


def expiry(
    created_at: datetime, read_at: datetime, *, ttl: int | None, idle_ttl: int | None, pinned: bool
) -> datetime | None:
    """Returns the earlier of `ttl` seconds after creation and `idle_ttl` seconds after the last read.

    None if it is pinned or neither is set: then it is kept forever.
    """
    if pinned:
        return None
    ends: list[datetime] = []
    if ttl is not None:
        ends.append(created_at + timedelta(seconds=ttl))
    if idle_ttl is not None:
        ends.append(read_at + timedelta(seconds=idle_ttl))
    return min(ends, default=None)


def check_idle_ttl(seconds: int | None) -> None:
    """Raises CoatcheckError `invalid_request` for an idle TTL that is too short."""
    if seconds is not None and seconds < MIN_IDLE_TTL:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"idle_ttl is {seconds} s, but must be at least {MIN_IDLE_TTL} s. Give a longer one, or use ttl.",
        )


T = TypeVar("T")

Evict = Literal["off", "least_recently_read"]
Redaction = Literal["off", "shown", "stored", "refuse"]
Automatic = Literal["auto"]
"""In place of a number: what the payload says decides."""
Part = Literal["session", "kind", "tool", "label"]

EVERYWHERE = "*"
"""A scope's namespace that means all of them."""
PARTS: tuple[Part, ...] = get_args(Part)
"""From least to most specific."""
NAMESPACE_ONLY = frozenset({"max_bytes", "max_artifacts", "evict", "tombstone_ttl"})
"""Fields that apply to whole namespaces, and can be set only for one or for all."""
MAX_SECONDS = 10 * 365 * 86_400
"""Ten years, as for callers' requests. Anything longer must be forever."""
MAX_BYTES = 2**60
"""1 EiB, far beyond any disk; sums of several still fit into the 63 bits of a database's integer."""
MAX_VALUE_CHARS = 1024
"""Maximum characters of a scope's value."""


class Policy(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Decisions for one scope, or the combination of several. An unset field decides nothing.

    In a field that may be None, that is a decision too: forever, or unlimited.
    """

    ttl: int | None | UnsetType = UNSET
    """Seconds that an artifact is kept if the caller specifies none; None: forever."""
    idle_ttl: int | None | UnsetType = UNSET
    """Seconds without a read if the caller specifies none; at least a minute."""
    max_ttl: int | None | UnsetType = UNSET
    """Maximum seconds from creation that a caller may request. Longer requests are reduced; a pin suspends it."""
    max_bytes: int | None | UnsetType = UNSET
    """Maximum stored bytes of a namespace."""
    max_artifacts: int | None | UnsetType = UNSET
    """Maximum artifacts of a namespace."""
    max_artifact_bytes: int | None | UnsetType = UNSET
    """Maximum bytes of one payload, in addition to the service's own limit."""
    evict: Evict | UnsetType = UNSET
    """What a full namespace does: refuse (`off`, the default), or evict the least recently read artifacts."""
    tombstone_ttl: int | UnsetType = UNSET
    """Seconds for which reads of a removed artifact say that it is gone, and why."""
    card_tokens: int | Automatic | UnsetType = UNSET
    """Token budget of a card if the caller specifies none: 64 to 8192, or `auto`: up to 2,048 where a run states many
    different failures, at most 300 where it states one, otherwise the setting's."""
    inline_tokens: int | UnsetType = UNSET
    """Payloads up to this many tokens are returned unchanged; 0 makes a card of everything."""
    search_enabled: bool | UnsetType = UNSET
    """Whether responses of web searches are taken (`true`, the default); otherwise the answer says that they are off,
    and nothing is stored."""
    search_keep_summary: bool | UnsetType = UNSET
    """Whether sentences and sources of a web search stay for later turns (`true`, the default), or only one line."""
    search_max_searches: int | None | UnsetType = UNSET
    """Maximum searches with results in a session; further ones are told so, and not stored."""
    search_max_searches_per_turn: int | None | UnsetType = UNSET
    """Maximum searches with results in a turn that the caller names."""
    search_max_results: int | UnsetType = UNSET
    """Results of a web search whose text is shown, if the caller specifies no number."""
    search_max_tokens_per_result: int | UnsetType = UNSET
    """Tokens of one such result, if the caller specifies none."""
    search_max_total_tokens: int | UnsetType = UNSET
    """Tokens of a web search's text, if the caller specifies none."""
    search_allowed_domains: tuple[str, ...] | UnsetType = UNSET
    """The only sites whose results a web search shows, whatever the caller specifies; empty: all."""
    search_excluded_domains: tuple[str, ...] | UnsetType = UNSET
    """Sites whose results a web search does not show, whatever the caller specifies."""
    redaction: Redaction | UnsetType = UNSET
    """What happens to secrets found in a payload."""
    keep_card_text: bool | UnsetType = UNSET
    """Whether the text of the card that a payload got when it was stored is kept with it (`false`, the default: only
    its digest)."""

    def switches(self, default: Switches) -> Switches:
        """Returns what applies to web searches; `default` where this decides nothing."""
        return Switches(
            enabled=value_or(self.search_enabled, default.enabled),
            keep_summary=value_or(self.search_keep_summary, default.keep_summary),
            max_searches=value_or(self.search_max_searches, default.max_searches),
            max_searches_per_turn=value_or(self.search_max_searches_per_turn, default.max_searches_per_turn),
        )


NOTHING = Policy()
"""Decides nothing: everything is left to the settings."""
FIELDS = Policy.__struct_fields__


class PolicyScope(Struct, frozen=True, order=True):
    """What a policy applies to: a namespace or all of them, whole or one part."""

    namespace: str = EVERYWHERE
    part: Part | None = None
    value: str = ""
    """The session, kind, tool or label; empty for the whole."""

    def __str__(self) -> str:
        """Returns the scope as people write it: `default`, `default/kind=log`, `*`."""
        return self.namespace if self.part is None else f"{self.namespace}/{self.part}={self.value}"


class PolicySource(NamedTuple):
    """Which scope decides a field, and how."""

    scope: PolicyScope
    value: object


def as_redaction(word: str) -> Redaction:
    """Returns one of the words for what happens to secrets.

    Raises:
        msgspec.ValidationError: it is another word.
    """
    return msgspec.convert(word, Redaction)


def value_or(value: T | UnsetType, otherwise: T) -> T:
    """Returns a field's decision, or `otherwise` if there is none."""
    return otherwise if value is UNSET else value


class Rules:
    """All policies. Immutable; consulted for every payload, so that without policies the cost is negligible."""

    def __init__(self, policies: Mapping[PolicyScope, Policy] | None = None) -> None:
        self._policies = dict(policies or {})
        self._ceilings: dict[str, int | None | UnsetType] = {}
        self._parts = {scope.part for scope in self._policies}
        for namespace in {scope.namespace for scope in self._policies}:
            self._ceilings[namespace] = self._ceiling(namespace)

    def __bool__(self) -> bool:
        """Whether there is any policy."""
        return bool(self._policies)

    def all(self) -> list[tuple[PolicyScope, Policy]]:
        """Returns every policy, by scope: all namespaces first, a namespace before its parts."""
        return sorted(self._policies.items(), key=lambda item: (item[0].namespace, item[0].part or "", item[0].value))

    def effective(
        self,
        namespace: str,
        *,
        session: str | None = None,
        kind: str | None = None,
        tool_name: str | None = None,
        labels: Iterable[str] = (),
    ) -> Policy:
        """Returns what applies to a payload described so far: for each field, the most specific scope that decides it.

        From the least specific: all namespaces, the namespace, then a session, a kind, a tool, a label; of each, that
        of all namespaces first. Of several labels, the first in character order wins.
        """
        if not self._policies:
            return NOTHING
        sources = self.explain(namespace, session=session, kind=kind, tool_name=tool_name, labels=labels)
        fields: dict[str, Any] = {field: source.value for field, source in sources.items()}
        return Policy(**fields) if fields else NOTHING

    def of_payload(self, namespace: str, declared: DeclaredMetadata, kind: str | None = None) -> Policy:
        """Returns what applies to a payload with these declarations; `kind`, if known, is what it turned out to be."""
        # Usually there are none, and an ingest comes here several times.
        if not self._policies:
            return NOTHING
        return self.effective(
            namespace,
            session=declared.session,
            kind=kind or declared.kind,
            tool_name=declared.tool_name,
            labels=declared.labels,
        )

    def explain(
        self,
        namespace: str,
        *,
        session: str | None = None,
        kind: str | None = None,
        tool_name: str | None = None,
        labels: Iterable[str] = (),
    ) -> dict[str, PolicySource]:
        """Returns which scope decides each field that is decided."""
        sources: dict[str, PolicySource] = {}
        # From the least specific on, so that later ones overwrite.
        for scope in self._scopes(namespace, session, kind, tool_name, labels):
            policy = self._policies.get(scope)
            for field, value in decisions(policy).items() if policy is not None else ():
                sources[field] = PolicySource(scope, value)
        return sources

    def ceiling(self, namespace: str) -> int | None:
        """Returns the bytes above which every policy of a namespace refuses a payload, whatever it turns out to be.

        None if there may be no limit: only the complete payload can tell.
        """
        if not self._policies:
            return None
        everywhere = self._ceilings.get(EVERYWHERE, UNSET)
        here = self._ceilings.get(namespace, UNSET)
        # The largest that any part allows: whether a part's policy applies is only known with the payload.
        whole = self.effective(namespace).max_artifact_bytes
        if whole is UNSET or None in (whole, everywhere, here):
            return None
        return max(limit for limit in (whole, everywhere, here) if isinstance(limit, int))

    def _ceiling(self, namespace: str) -> int | None | UnsetType:
        """Returns the maximum that a part's policy allows; unset if none of them decides."""
        limits = [
            policy.max_artifact_bytes
            for scope, policy in self._policies.items()
            if scope.namespace == namespace and scope.part is not None
        ]
        set_limits = [limit for limit in limits if limit is not UNSET]
        if not set_limits:
            return UNSET
        finite_limits = [limit for limit in set_limits if limit is not None]
        return max(finite_limits) if len(finite_limits) == len(set_limits) else None

    def _scopes(
        self, namespace: str, session: str | None, kind: str | None, tool_name: str | None, labels: Iterable[str]
    ) -> Iterator[PolicyScope]:
        """Yields the scopes of a payload, least specific first; only parts that some policy names."""
        spaces = (EVERYWHERE, namespace)
        for space in spaces:
            yield PolicyScope(space)
        values_by_part: tuple[tuple[Part, Iterable[str]], ...] = (
            ("session", () if session is None else (session,)),
            ("kind", () if kind is None else (kind,)),
            ("tool", () if tool_name is None else (tool_name,)),
            ("label", sorted(set(labels), reverse=True)),
        )
        for part, values in values_by_part:
            if part in self._parts:
                for space in spaces:
                    for value in values:
                        yield PolicyScope(space, part, value)


NO_RULES = Rules()


def decisions(policy: Policy) -> dict[str, object]:
    """Returns the fields that a policy decides."""
    return {field: value for field in FIELDS if (value := getattr(policy, field)) is not UNSET}


class RetentionTerms(NamedTuple):
    """How long a payload is kept."""

    ttl: int | None
    idle_ttl: int | None
    is_capped: bool
    """Whether the caller requested more than `max_ttl`."""


def resolve_terms(
    policy: Policy, *, ttl: int | None | UnsetType, idle_ttl: int | None | UnsetType, otherwise: int
) -> RetentionTerms:
    """Returns the terms: the caller's request, or the policy's, or the settings' `otherwise`.

    Never more than `max_ttl`.
    """
    # The ceiling counts last: it also limits what the policy itself says.
    longest = value_or(policy.max_ttl, None)
    lifetime = value_or(ttl, value_or(policy.ttl, otherwise))
    idle = value_or(idle_ttl, value_or(policy.idle_ttl, None))
    if longest is None or (lifetime is not None and lifetime <= longest):
        return RetentionTerms(lifetime, idle, is_capped=False)
    return RetentionTerms(longest, idle, is_capped=ttl is not UNSET)


def check(scope: PolicyScope, policy: Policy) -> None:
    """Raises CoatcheckError `invalid_request` for an invalid policy or scope."""
    _check_scope(scope)
    fields = decisions(policy)
    if not fields:
        raise _invalid("A policy must set at least one field. To withdraw a policy, remove it.")
    if scope.part is not None:
        for field in NAMESPACE_ONLY & fields.keys():
            raise _invalid(
                f"'{field}' applies to a whole namespace: set it for {scope.namespace}, not for {scope}.", field
            )
    # It refuses names that are no domains.
    _ = Domains(value_or(policy.search_allowed_domains, ()), value_or(policy.search_excluded_domains, ()))
    for field, (low, high) in _BOUNDS.items():
        value = fields.get(field)
        if isinstance(value, int) and not low <= value <= high:
            raise _invalid(f"'{field}' must be {low} to {high}.", field)


_BOUNDS = {
    "ttl": (1, MAX_SECONDS),
    "idle_ttl": (MIN_IDLE_TTL, MAX_SECONDS),
    "max_ttl": (1, MAX_SECONDS),
    "max_bytes": (0, MAX_BYTES),
    "max_artifacts": (0, MAX_BYTES),
    "max_artifact_bytes": (0, MAX_BYTES),
    "tombstone_ttl": (0, MAX_SECONDS),
    "card_tokens": (64, 8192),
    "inline_tokens": (0, 100_000),
    **dict.fromkeys(("search_max_searches", "search_max_searches_per_turn"), (1, 10_000)),
    **{f"search_{name}": bounds for name, bounds in SEARCH_BOUNDS.items()},
}


def _check_scope(scope: PolicyScope) -> None:
    if not scope.namespace:
        raise _invalid("A policy's scope names a namespace, or `*` for all of them.", "namespace")
    if scope.part is None:
        if scope.value:
            raise _invalid("A policy of a whole namespace has no value.", "value")
        return
    if not 1 <= len(scope.value) <= MAX_VALUE_CHARS or "\0" in scope.value:
        raise _invalid(
            f"The {scope.part} of a policy must have 1 to {MAX_VALUE_CHARS} characters and no NUL.", scope.part
        )
    if scope.part == "kind" and scope.value not in set(Kind):
        kinds = ", ".join(Kind)
        raise _invalid(f"There is no kind {scope.value[:40]!r}. The kinds are {kinds}.", "kind")


def _invalid(detail: str, field: str | None = None) -> CoatcheckError:
    return CoatcheckError(Code.INVALID_REQUEST, detail, **({} if field is None else {"field": field}))


def encode(policy: Policy) -> str:
    """Returns a policy as it is stored."""
    return msgspec.json.encode(policy).decode()


def decode(text: str) -> Policy:
    """Returns a stored policy."""
    return msgspec.json.decode(text, type=Policy)


NO_LIMIT: Final = frozenset({"none", "null", "forever"})
"""How people say that there is no limit, or that something is kept for ever."""
SIZES: Final = frozenset({"max_bytes", "max_artifacts", "max_artifact_bytes"})
"""Fields whose numbers may have a unit."""
_UNITS: Final = {"": 1, "kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4}
"""Bytes of each unit, by its name in lower case."""


def size_of(text: str) -> int:
    """Returns a whole number, which a unit of bytes may follow: `10gib`.

    Raises:
        ValueError: it is neither; the message says what is.
    """
    match = re.fullmatch(r"([0-9]{1,18})([a-z]{0,3})", text.lower())
    if match is None or match[2] not in _UNITS:
        raise ValueError("give a whole number, for bytes with kib, mib, gib or tib, or none.")
    return int(match[1]) * _UNITS[match[2]]
