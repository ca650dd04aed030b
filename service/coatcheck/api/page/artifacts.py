"""The page with the list of artifacts, and the form that pins, holds or deletes several of them at once."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict

from coatcheck.api.artifacts import ListQuery, artifact_views
from coatcheck.api.http.access import ADMIN, DELETE, READ
from coatcheck.api.http.request_parts import from_pairs
from coatcheck.api.page.call import Input, PageAnswer, PageCall, Shown, address, page
from coatcheck.api.parameters import life, plain
from coatcheck.core import ids
from coatcheck.core.artifact import Kind
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import EVERYWHERE, allow
from coatcheck.core.retention.audit import MAX_REASON_CHARS
from coatcheck.core.text.count import plural

Action = Literal["pin", "unpin", "hold", "delete"]
NEEDS: Final[dict[Action, str]] = {"pin": DELETE, "unpin": DELETE, "hold": ADMIN, "delete": DELETE}
"""By action, the scope that a key needs. The API's routes need the same scopes."""
MAX_SELECTED: Final = 200
"""Maximum artifacts that one form selects: as many as the longest page lists."""
_HOLD_INPUTS: Final = (Input("Reason", "reason"), Input("For how long", "ttl", "7d; blank: until released"))
"""Additional inputs of the page that asks for confirmation of a hold."""
_TIMES: Final = {"created_after", "created_before"}
"""Names of the filters that are times. A browser's input for a time has no time zone."""


class BulkForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """The form that changes several artifacts in the same way."""

    id: Annotated[tuple[str, ...], Meta(max_length=MAX_SELECTED)] = ()
    action: Action
    reason: Annotated[str, Meta(max_length=MAX_REASON_CHARS)] = ""
    """Reason of a hold; empty for other actions."""
    ttl: str | None = None
    """Duration of a hold; None: until it is released."""


class Done(Struct, frozen=True):
    """The result of an action for one artifact."""

    id: str
    code: str
    """Code of the error; empty if the action succeeded."""
    detail: str


@page("GET /ui/artifacts", scope=READ)
async def list_artifacts(call: PageCall) -> PageAnswer:
    """Shows a page of artifacts that match the API's filters, newest first."""
    pairs = [(name, _in_utc(value) if name in _TIMES else value) for name, value in call.pairs()]
    query = from_pairs(pairs, ListQuery, where="the query string")
    listing = await call.services.browse(call.who, query.filter(), query.cursor, query.limit, query=query.q)
    parameters = {name: _text(value) for name, value in asdict(query).items() if value not in {None, ""}}
    # A link to the first page has only the filters, without a cursor.
    filters = {name: value for name, value in parameters.items() if name not in {"cursor", "limit"}}
    more = None if listing.next is None else address("/ui/artifacts", **{**parameters, "cursor": listing.next})
    values = {
        "items": await artifact_views(call.services.holds, listing.items),
        "filters": filters,
        "kinds": [str(kind) for kind in Kind],
        "more": more,
        "paged": query.cursor is not None,
        "first": address("/ui/artifacts", **filters),
        "partial": listing.partial,
        "actions": actions_of(call),
    }
    return Shown("artifacts.jinja", values)


@page("POST /ui/artifacts/bulk", scope=READ)
async def change_artifacts(call: PageCall) -> PageAnswer:
    """Asks for confirmation; once confirmed, changes the artifacts and shows the result for each."""
    form = await call.form(BulkForm)
    allow(call.who, NEEDS[form.action])
    if not form.id:
        raise CoatcheckError(Code.INVALID_REQUEST, "No artifact was chosen: select some in the list first.", field="id")
    # An invalid input is reported on the page that asks for confirmation, as that page has the inputs.
    act = problem = None
    try:
        act = _action(call, form)
    except CoatcheckError as error:
        problem = error.detail
    question = call.confirm(
        f"{form.action.capitalize()} {plural(len(form.id), 'artifact')}?",
        button=form.action.capitalize(),
        back="/ui/artifacts",
        warning="Reads will then report them as gone. Held artifacts stay." if form.action == "delete" else None,
        artifacts=form.id,
        inputs=_HOLD_INPUTS if form.action == "hold" else (),
        problem=problem,
    )
    if question is not None or act is None:
        return question
    # Change each artifact separately: an error for one of them does not stop the others.
    results: list[Done] = []
    for each in dict.fromkeys(form.id):
        try:
            await act(ids.parse(each))
            results.append(Done(each, "", ""))
        except CoatcheckError as error:
            results.append(Done(each, str(error.code), error.detail))
    return Shown("bulk_done.jinja", {"form": form, "done": results, "failed": sum(bool(each.code) for each in results)})


def _in_utc(value: str) -> str:
    """Returns a time from a browser's input as a time in UTC; any other text unchanged."""
    for form in ("%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"):
        with suppress(ValueError):
            return datetime.strptime(value, form).replace(tzinfo=UTC).isoformat()
    return value


def _text(value: object) -> str:
    """Returns the value of a filter as a browser's input accepts it."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S") if isinstance(value, datetime) else str(value)


def actions_of(call: PageCall) -> list[Action]:
    """Returns the actions for which the caller's key has the scope. A key of `*` can do nothing with artifacts."""
    return [] if call.who.namespace == EVERYWHERE else [each for each, scope in NEEDS.items() if call.may(scope)]


def _action(call: PageCall, form: BulkForm) -> Callable[[int], Awaitable[object]]:
    services, who = call.services, call.who
    if form.action == "hold":
        if not form.reason.strip():
            raise CoatcheckError(Code.INVALID_REQUEST, "A hold needs a reason.", field="reason")
        plain(form.reason, "reason")
        hold_life = life(form.ttl, "ttl")
        return lambda number: services.holds.place(who, None, reason=form.reason, number=number, life=hold_life)
    if form.action == "delete":
        return lambda number: services.forget(who, number)
    return lambda number: services.extend(who, number, pinned=form.action == "pin")
