"""Policies: the list, which of them decide for a payload, setting and removing one; holds; usage and quotas."""

from typing import Final, get_args

import msgspec
from msgspec import UNSET, Struct

from coatcheck.api.holds import HoldsQuery, NewHoldRequest, hold_view
from coatcheck.api.http.access import ADMIN
from coatcheck.api.http.json_body import refusal_of
from coatcheck.api.http.request_parts import from_pairs
from coatcheck.api.namespaces import UsageQuery
from coatcheck.api.page.call import Elsewhere, PageAnswer, PageCall, Shown, address, page
from coatcheck.api.page.render import render_exact_value
from coatcheck.api.parameters import life, plain
from coatcheck.api.policies import ExplainQuery, PolicyBody, ScopeQuery, explanation_view, policy_of, scope_of
from coatcheck.core import ids
from coatcheck.core.artifact import Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import EVERYWHERE, resolve_administered
from coatcheck.core.policies.policy import (
    FIELDS,
    NAMESPACE_ONLY,
    NO_LIMIT,
    NOTHING,
    SIZES,
    Evict,
    Policy,
    PolicyScope,
    Redaction,
    check,
    decisions,
    size_of,
)

_DOMAINS: Final = frozenset({"search_allowed_domains", "search_excluded_domains"})
"""Fields that are lists, which a form has as one text with commas."""
_HINTS: Final = {
    **dict.fromkeys(("ttl", "idle_ttl", "max_ttl"), "7d, none"),
    **dict.fromkeys(("max_bytes", "max_artifact_bytes"), "10gib, none"),
    **dict.fromkeys(_DOMAINS, "a.example, b.example"),
    "max_artifacts": "10000, none",
    "card_tokens": "600, auto",
    "tombstone_ttl": "30d",
}
"""What a field may look like."""


class HoldForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """A hold to be released."""

    id: str


@page("GET /ui/policies", scope=ADMIN)
async def show_policies(call: PageCall) -> PageAnswer:
    """Shows the policies, and what would apply to a described payload."""
    query = call.query(ExplainQuery, "done", "explain")
    all_of_them = call.who.namespace == EVERYWHERE or call.everywhere
    version, policies = await call.services.policies.current(call.who, None)
    explained = None
    # The form that describes a payload sends this field, even if everything else in it is blank.
    if call.get_parameter("explain") is not None:
        explained = explanation_view(
            await call.services.policies.explain(
                call.who,
                query.namespace,
                session=query.session,
                kind=query.kind,
                tool_name=query.tool_name,
                labels=query.label,
            )
        )
    values = {
        "version": version,
        "policies": [(scope, decisions(policy)) for scope, policy in policies],
        "asked": query,
        "explained": explained,
        "kinds": [str(kind) for kind in Kind],
        "all_of_them": all_of_them,
    }
    return Shown("policies.jinja", values)


@page("GET /ui/policies/edit", scope=ADMIN)
async def edit_policy(call: PageCall) -> PageAnswer:
    """Shows the form of a scope's policy, with its present decisions."""
    scope = scope_of(from_pairs(call.pairs(), ScopeQuery), call.who)
    present = await _present(call, scope)
    values = {
        "scope": scope,
        "present": {name: render_exact_value(name, value) for name, value in decisions(present).items()},
        "fields": [name for name in FIELDS if scope.part is None or name not in NAMESPACE_ONLY],
        "choices": {"evict": get_args(Evict), "redaction": get_args(Redaction), "keep_card_text": ("true", "false")},
        "hints": _HINTS,
    }
    return Shown("policy.jinja", values)


@page("POST /ui/policies/edit", scope=ADMIN)
async def set_policy(call: PageCall) -> PageAnswer:
    """Asks for confirmation of what would change; once confirmed, sets the policy of a scope."""
    scope = scope_of(from_pairs(call.pairs(), ScopeQuery), call.who)
    policy = _policy(await call.fields())
    check(scope, policy)
    present = await _present(call, scope)
    if policy == present:
        return Elsewhere("/ui/policies?done=same")
    question = _confirm_change(call, f"Change the policy of {scope}?", "Set", present, policy)
    if question is not None:
        return question
    await call.services.policies.set(call.who, scope, policy)
    return Elsewhere("/ui/policies?done=set")


@page("POST /ui/policies/remove", scope=ADMIN)
async def remove_policy(call: PageCall) -> PageAnswer:
    """Asks for confirmation; once confirmed, removes the policy of a scope."""
    scope = scope_of(from_pairs(await call.fields(), ScopeQuery), call.who)
    present = await _present(call, scope)
    question = _confirm_change(call, f"Remove the policy of {scope}?", "Remove", present, NOTHING)
    # Without a policy there is nothing to confirm; the use case then says that there is none.
    if present != NOTHING and question is not None:
        return question
    await call.services.policies.remove(call.who, scope)
    return Elsewhere("/ui/policies?done=removed")


@page("GET /ui/holds", scope=ADMIN)
async def show_holds(call: PageCall) -> PageAnswer:
    """Shows the holds, ended ones included, and the form that places one."""
    query = call.query(HoldsQuery, "done", "artifact", "session")
    listing = await call.services.holds.list(call.who, query.namespace, after=query.cursor, limit=query.limit)
    more = None if listing.after is None else address("/ui/holds", namespace=query.namespace, cursor=listing.after)
    values = {
        "items": list(map(hold_view, listing.items)),
        "more": more,
        "artifact": call.get_parameter("artifact"),
        "session": call.get_parameter("session"),
    }
    return Shown("holds.jinja", values)


@page("POST /ui/holds", scope=ADMIN)
async def place_hold(call: PageCall) -> PageAnswer:
    """Places a hold on an artifact, a session or the namespace."""
    form = await call.form(NewHoldRequest)
    plain(form.reason, "reason")
    number, lasts = None if form.artifact is None else ids.parse(form.artifact), life(form.ttl, "ttl")
    # Holding a whole namespace stops all of its expiry, so its name must be typed.
    if number is None and form.session is None:
        namespace = resolve_administered(call.who, form.namespace)
        question = call.confirm(
            f"Hold all of the namespace {namespace}?",
            button="Hold",
            back="/ui/holds",
            word=namespace,
            warning="Nothing in it can be deleted, and what expires stays stored, until the hold ends.",
            note=f"Reason: {form.reason}",
        )
        if question is not None:
            return question
    await call.services.holds.place(
        call.who,
        form.namespace,
        reason=form.reason,
        number=number,
        session=plain(form.session, "session"),
        until=form.until,
        life=lasts,
    )
    return Elsewhere("/ui/holds?done=placed")


@page("POST /ui/holds/release", scope=ADMIN)
async def release_hold(call: PageCall) -> PageAnswer:
    """Asks for confirmation; once confirmed, releases a hold."""
    form = await call.form(HoldForm)
    hold = hold_view(await call.services.holds.show(call.who, form.id))
    question = call.confirm(
        f"Release {hold.id}?",
        button="Release",
        back="/ui/holds",
        state=hold,
        warning="What no other hold covers can be deleted from then on, and is removed if it has expired.",
        note=f"It covers {hold.artifact or hold.session or 'all'} in {hold.namespace}, by {hold.by}: {hold.reason}",
    )
    if question is not None:
        return question
    await call.services.holds.release(call.who, form.id)
    return Elsewhere("/ui/holds?done=released")


@page("GET /ui/usage", scope=ADMIN)
async def show_usage(call: PageCall) -> PageAnswer:
    """Shows what namespaces hold, and what they may hold."""
    query = call.query(UsageQuery)
    listing = await call.services.usage(call.who, query.namespace, cursor=query.cursor, limit=query.limit)
    more = None if listing.next is None else address("/ui/usage", cursor=listing.next)
    return Shown("usage.jinja", {"items": listing.items, "more": more})


async def _present(call: PageCall, scope: PolicyScope) -> Policy:
    """Returns the policy of a scope; NOTHING if it has none."""
    namespace = None if scope.namespace == EVERYWHERE else scope.namespace
    _, policies = await call.services.policies.current(call.who, namespace)
    return dict(policies).get(scope, NOTHING)


def _policy(fields: list[tuple[str, str]]) -> Policy:
    """Returns the policy that a form says."""
    stripped_fields = [(name, value.strip()) for name, value in fields]
    # `none` stands for null, which a form cannot contain, or for an empty list of domains.
    unlimited: dict[str, list[str] | None] = {
        name: [] if name in _DOMAINS else None
        for name, value in stripped_fields
        if value.lower() in NO_LIMIT and name in FIELDS
    }
    pairs = [(name, word) for name, value in stripped_fields if name not in unlimited for word in _words(name, value)]
    try:
        # The texts are converted first, like a query string; then all of it with the nulls, which not every field
        # allows.
        body = msgspec.convert(msgspec.to_builtins(from_pairs(pairs, PolicyBody)) | unlimited, PolicyBody)
    except msgspec.ValidationError as error:  # a field that always has a limit
        raise refusal_of(error, PolicyBody, where="the form") from error
    return policy_of(body)


def _confirm_change(call: PageCall, title: str, button: str, present: Policy, policy: Policy) -> Shown | None:
    """Returns a page that shows what would change in a policy, and asks; None once that was confirmed."""
    now, then = decisions(present), decisions(policy)
    changes = [
        (name, *(render_exact_value(name, each[name]) if name in each else "not decided" for each in (now, then)))
        for name in FIELDS
        if now.get(name, UNSET) != then.get(name, UNSET)
    ]
    # The state has both policies: if another administrator changes the present one, the question is asked again.
    return call.confirm(title, button=button, back="/ui/policies", state=(present, policy), changes=changes)


def _words(name: str, text: str) -> list[str]:
    """Returns the values of a policy's field as the API takes them."""
    if name in _DOMAINS:
        return [each for each in map(str.strip, text.split(",")) if each]
    if name not in SIZES:
        return [text]
    try:
        return [str(size_of(text))]
    except ValueError as error:
        raise CoatcheckError(Code.INVALID_REQUEST, f"'{name}': {error}", field=name) from error
