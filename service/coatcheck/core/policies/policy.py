"""Policies: administrators' defaults and limits by scope, which of them apply to a payload, and when it expires.

This module only computes; it stores nothing. A field that no policy sets is left to the settings. A later policy does
not revoke what a receipt has promised. Fields are refused in scopes in which they cannot be enforced: the limits of a
namespace can only be set for namespaces. Ingest, reads, changes and sweeps all use `expiry`, to which the caller passes
the times.
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
"""Seconds. Read times are written about once a second, so a shorter idle TTL could not be kept exactly."""


def expiry(
    created_at: datetime, read_at: datetime, *, ttl: int | None, idle_ttl: int | None, pinned: bool
) -> datetime | None:
    """Returns the earlier of `ttl` seconds after creation and `idle_ttl` seconds after the last read.

    Returns None if the artifact is pinned or neither TTL is set: the artifact is then kept forever.
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
"""Value in place of a number: the service chooses the number by the payload's content."""
Part = Literal["session", "kind", "tool", "label"]

EVERYWHERE = "*"
"""The namespace of a scope that covers all namespaces."""
PARTS: tuple[Part, ...] = get_args(Part)
"""The parts to which a scope can be limited, from the least to the most specific."""
NAMESPACE_ONLY = frozenset({"max_bytes", "max_artifacts", "evict", "tombstone_ttl"})
"""Fields that apply to whole namespaces: they can be set for one namespace or for all, but not for a part of one."""
MAX_SECONDS = 10 * 365 * 86_400
"""Ten years, the same bound as for callers' requests. A longer time can only be set as forever."""
MAX_BYTES = 2**60
"""1 EiB, far beyond any disk; the sum of several such numbers still fits into a database's 64-bit signed integer."""
MAX_VALUE_CHARS = 1024
"""Maximum characters of a scope's value."""


class Policy(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The settings of one scope, or the combination of several scopes. An unset field decides nothing.

    None in a field is a choice of its own: forever, or unlimited.
    """

    ttl: int | None | UnsetType = UNSET
    """Seconds that an artifact is kept if the caller specifies none; None: forever."""
    idle_ttl: int | None | UnsetType = UNSET
    """Seconds without a read after which an artifact expires, if the caller specifies none: at least 60; None:
    never."""
    max_ttl: int | None | UnsetType = UNSET
    """Maximum seconds from creation that a caller may request. Longer requests are reduced. It does not apply to pinned
    artifacts."""
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
    """Maximum searches with results in a session; further searches are answered with a notice of this limit, and not
    stored."""
    search_max_searches_per_turn: int | None | UnsetType = UNSET
    """Maximum searches with results in a turn that the caller names."""
    search_max_results: int | UnsetType = UNSET
    """Maximum results of a web search whose text is shown, if the caller specifies none."""
    search_max_tokens_per_result: int | UnsetType = UNSET
    """Maximum tokens of the text of one result, if the caller specifies none."""
    search_max_total_tokens: int | UnsetType = UNSET
    """Maximum tokens of the whole text of a web search, if the caller specifies none."""
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
        """Returns the settings of web searches; fields that this policy does not set come from `default`."""
        return Switches(
            enabled=value_or(self.search_enabled, default.enabled),
            keep_summary=value_or(self.search_keep_summary, default.keep_summary),
            max_searches=value_or(self.search_max_searches, default.max_searches),
            max_searches_per_turn=value_or(self.search_max_searches_per_turn, default.max_searches_per_turn),
        )


NOTHING = Policy()
"""The policy that sets nothing: everything is left to the settings."""
FIELDS = Policy.__struct_fields__


class PolicyScope(Struct, frozen=True, order=True):
    """The scope of a policy: one namespace or all, and optionally one session, kind, tool or label in it."""

    namespace: str = EVERYWHERE
    part: Part | None = None
    value: str = ""
    """The session, kind, tool or label; empty if the scope is the whole namespace."""

    def __str__(self) -> str:
        """Returns the scope as people write it: `default`, `default/kind=log`, `*`."""
        return self.namespace if self.part is None else f"{self.namespace}/{self.part}={self.value}"


class PolicySource(NamedTuple):
    """The scope that decides a field, and the value that it sets."""

    scope: PolicyScope
    value: object


def as_redaction(word: str) -> Redaction:
    """Returns `word` as a redaction mode.

    Raises:
        msgspec.ValidationError: `word` is no redaction mode.
    """
    return msgspec.convert(word, Redaction)


def value_or(value: T | UnsetType, otherwise: T) -> T:
    """Returns the value of a field, or `otherwise` if the field is not set."""
    return otherwise if value is UNSET else value


class Rules:
    """All policies. Immutable. Consulted for every payload, so the case without policies costs almost nothing."""

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
        """Returns every policy, sorted by scope: those of all namespaces first, a whole namespace before its parts."""
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
        """Returns the policy of a payload: each field has the value of the most specific scope that sets it.

        From the least to the most specific: all namespaces, the namespace, a session, a kind, a tool, a label. For a
        session, kind, tool or label, the namespace's own policy is more specific than the one of all namespaces. Of
        several labels, the first in character order wins.
        """
        if not self._policies:
            return NOTHING
        sources = self.explain(namespace, session=session, kind=kind, tool_name=tool_name, labels=labels)
        fields: dict[str, Any] = {field: source.value for field, source in sources.items()}
        return Policy(**fields) if fields else NOTHING

    def of_payload(self, namespace: str, declared: DeclaredMetadata, kind: str | None = None) -> Policy:
        """Returns the policy of a payload. `kind` is the kind that was detected; None uses the declared one."""
        # Usually there are no policies, and one ingest calls this several times.
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
        """Returns the source of each field that some scope sets."""
        sources: dict[str, PolicySource] = {}
        # From the least specific scope on, so that the values of more specific scopes overwrite earlier ones.
        for scope in self._scopes(namespace, session, kind, tool_name, labels):
            policy = self._policies.get(scope)
            for field, value in decisions(policy).items() if policy is not None else ():
                sources[field] = PolicySource(scope, value)
        return sources

    def ceiling(self, namespace: str) -> int | None:
        """Returns the bytes above which a namespace refuses every payload, whatever its kind, tool or labels.

        Returns None if a payload may have no limit: then only the complete payload shows whether it is too large.
        """
        if not self._policies:
            return None
        everywhere = self._ceilings.get(EVERYWHERE, UNSET)
        of_namespace = self._ceilings.get(namespace, UNSET)
        # The largest limit of any part counts: whether a part's policy applies is only known once the payload is there.
        whole = self.effective(namespace).max_artifact_bytes
        if whole is UNSET or None in (whole, everywhere, of_namespace):
            return None
        return max(limit for limit in (whole, everywhere, of_namespace) if isinstance(limit, int))

    def _ceiling(self, namespace: str) -> int | None | UnsetType:
        """Returns the largest limit among the policies of a namespace's parts.

        None if one of them is unlimited, UNSET if none of them sets a limit.
        """
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
        """Yields the scopes that cover a payload, least specific first; parts that no policy names are left out."""
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
    """Returns the fields that a policy sets, with their values."""
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
    """Returns the terms of a payload: the caller's request, else the policy's, else `otherwise` from the settings.

    The TTL never exceeds `max_ttl`.
    """
    # The maximum is applied last, because it also limits the policy's own `ttl`.
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
    # The constructor refuses texts that are not domain names.
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
    """Returns a policy in its stored form, a JSON text."""
    return msgspec.json.encode(policy).decode()


def decode(text: str) -> Policy:
    """Returns the policy of a stored JSON text."""
    return msgspec.json.decode(text, type=Policy)


NO_LIMIT: Final = frozenset({"none", "null", "forever"})
"""Words by which people say that there is no limit, or that something is kept forever."""
SIZES: Final = frozenset({"max_bytes", "max_artifacts", "max_artifact_bytes"})
"""Fields whose numbers may have a unit of bytes."""
_UNITS: Final = {"": 1, "kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4}
"""Bytes of each unit, by its name in lower case."""


def size_of(text: str) -> int:
    """Returns a whole number that may have a unit of bytes, as in `10gib`.

    Raises:
        ValueError: the text has another form; the message names the forms that are accepted.
    """
    match = re.fullmatch(r"([0-9]{1,18})([a-z]{0,3})", text.lower())
    if match is None or match[2] not in _UNITS:
        raise ValueError("give a whole number, for bytes with kib, mib, gib or tib, or none.")
    return int(match[1]) * _UNITS[match[2]]
