"""Keys: list them, create one, which is shown once, and revoke one."""

from msgspec import Struct

from coatcheck.api.durations import life
from coatcheck.api.http.access import ADMIN
from coatcheck.api.keys.wire import KeysQuery, NewKeyRequest
from coatcheck.api.page.call import Elsewhere, PageAnswer, PageCall, Shown, address, page
from coatcheck.core.artifact import EVERY_SCOPE
from coatcheck.core.rates import Rates


class RevokeForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """A key to be revoked."""

    id: str


@page("GET /ui/keys", scope=ADMIN)
async def show_keys(call: PageCall) -> PageAnswer:
    """Shows the keys, revoked and expired ones included, and the form that creates one."""
    query = call.query(KeysQuery, "done")
    listing = await call.services.keys.list(call.who, namespace=query.namespace, before=query.cursor, limit=query.limit)
    more = None if listing.before is None else address("/ui/keys", namespace=query.namespace, cursor=listing.before)
    return Shown("keys.jinja", {"items": listing.items, "more": more, "scopes": sorted(EVERY_SCOPE)})


@page("POST /ui/keys", scope=ADMIN)
async def create_key(call: PageCall) -> PageAnswer:
    """Creates a key and shows it, this one time."""
    form = await call.form(NewKeyRequest)
    info, secret = await call.services.keys.create(
        call.who,
        namespace=form.namespace,
        name=form.name,
        scopes=form.scopes,
        session_prefix=form.session_prefix,
        life=life(form.ttl, "ttl"),
        rates=Rates(requests=form.requests_per_minute, bytes=form.bytes_per_minute),
    )
    return Shown("new_key.jinja", {"info": info, "key": secret.reveal()}, status=201)


@page("POST /ui/keys/revoke", scope=ADMIN)
async def revoke_key(call: PageCall) -> PageAnswer:
    """Asks for confirmation; once confirmed, refuses the key from now on."""
    form = await call.form(RevokeForm)
    own = " It is the key that you signed in with." if form.id == call.who.key_id else ""
    question = call.confirm(
        f"Revoke key {form.id}?",
        button="Revoke",
        back="/ui/keys",
        warning=f"Every request with it is refused from then on.{own}",
        note="It stays listed.",
    )
    if question is not None:
        return question
    await call.services.keys.revoke(call.who, form.id)
    return Elsewhere("/ui/keys?done=revoked")
