"""The pages of policies (list, explain, set and remove), of holds, and of usage and quotas."""

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
"""Fields that are lists. A form has each as one text with commas."""
_HINTS: Final = {
    **dict.fromkeys(("ttl", "idle_ttl", "max_ttl"), "7d, none"),
    **dict.fromkeys(("max_bytes", "max_artifact_bytes"), "10gib, none"),
    **dict.fromkeys(_DOMAINS, "a.example, b.example"),
    "max_artifacts": "10000, none",
    "card_tokens": "600, auto",
    "tombstone_ttl": "30d",
}
"""By field, an example of its values that the form shows."""


class HoldForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """The form that releases a hold."""

    id: str


@page("GET /ui/policies", scope=ADMIN)
async def show_policies(call: PageCall) -> PageAnswer:
    """Shows the policies and, if the query describes a payload, the policy that would apply to it."""
    query = call.query(ExplainQuery, "done", "explain")
    all_of_them = call.who.namespace == EVERYWHERE or call.everywhere
    version, policies = await call.services.policies.current(call.who, None)
    explained = None
    # The form that describes a payload always sends this field, even if all its inputs are blank.
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
    """Asks for confirmation of the changes; once confirmed, sets the policy of a scope."""
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
    # Without a policy, there is nothing to confirm: the use case raises the error for that.
    if present != NOTHING and question is not None:
        return question
    await call.services.policies.remove(call.who, scope)
    return Elsewhere("/ui/policies?done=removed")


@page("GET /ui/holds", scope=ADMIN)
async def show_holds(call: PageCall) -> PageAnswer:
    """Shows the holds, including those that have ended, and the form that places a hold."""
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
    """Places a hold on an artifact, on a session, or, after a confirmation, on a whole namespace."""
    form = await call.form(NewHoldRequest)
    plain(form.reason, "reason")
    number, lasts = None if form.artifact is None else ids.parse(form.artifact), life(form.ttl, "ttl")
    # A hold on a whole namespace prevents anything in it from being removed, so the user must type its name.
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
    """Shows what namespaces hold, and their quotas."""
    query = call.query(UsageQuery)
    listing = await call.services.usage(call.who, query.namespace, cursor=query.cursor, limit=query.limit)
    more = None if listing.next is None else address("/ui/usage", cursor=listing.next)
    return Shown("usage.jinja", {"items": listing.items, "more": more})


async def _present(call: PageCall, scope: PolicyScope) -> Policy:
    """Returns the present policy of a scope; NOTHING if it has none."""
    namespace = None if scope.namespace == EVERYWHERE else scope.namespace
    _, policies = await call.services.policies.current(call.who, namespace)
    return dict(policies).get(scope, NOTHING)


def _policy(fields: list[tuple[str, str]]) -> Policy:
    """Returns the policy in the fields of a form.

    Raises:
        CoatcheckError: `invalid_request`, which names the field.
    """
    stripped_fields = [(name, value.strip()) for name, value in fields]
    # `none` stands for null, which a form cannot contain, or for an empty list of domains.
    unlimited: dict[str, list[str] | None] = {
        name: [] if name in _DOMAINS else None
        for name, value in stripped_fields
        if value.lower() in NO_LIMIT and name in FIELDS
    }
    pairs = [(name, word) for name, value in stripped_fields if name not in unlimited for word in _values(name, value)]
    try:
        # First convert the texts, like a query string. Then add the nulls and convert the whole once more, because not
        # every field allows null.
        body = msgspec.convert(msgspec.to_builtins(from_pairs(pairs, PolicyBody)) | unlimited, PolicyBody)
    except msgspec.ValidationError as error:  # the field must have a limit
        raise refusal_of(error, PolicyBody, where="the form") from error
    return policy_of(body)


def _confirm_change(call: PageCall, title: str, button: str, present: Policy, policy: Policy) -> Shown | None:
    """Returns a page that shows the changes of a policy and asks for confirmation; None if it was confirmed."""
    now, then = decisions(present), decisions(policy)
    changes = [
        (name, *(render_exact_value(name, each[name]) if name in each else "not decided" for each in (now, then)))
        for name in FIELDS
        if now.get(name, UNSET) != then.get(name, UNSET)
    ]
    # The state has both policies. If another administrator changes the present policy, the page asks again.
    return call.confirm(title, button=button, back="/ui/policies", state=(present, policy), changes=changes)


def _values(name: str, text: str) -> list[str]:
    """Returns the values of a field in the form of the API, from the text in the page's form.

    Raises:
        CoatcheckError: `invalid_request` for an invalid size.
    """
    if name in _DOMAINS:
        return [each for each in map(str.strip, text.split(",")) if each]
    if name not in SIZES:
        return [text]
    try:
        return [str(size_of(text))]
    except ValueError as error:
        raise CoatcheckError(Code.INVALID_REQUEST, f"'{name}': {error}", field=name) from error
