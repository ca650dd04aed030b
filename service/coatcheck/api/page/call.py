"""A request to the administrator's page: its caller, the caller's rights, and the fields of its form.

A route of the page is declared at its function, like a route of the API, but is not in the OpenAPI document. It uses
the use cases and query types of the API.
"""

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec
from litestar.types import HTTPScope, Receive, Scope, Send

from coatcheck.api.http.request_parts import MAX_PAIRS, from_pairs, media_type
from coatcheck.api.route import SMALL, RouteCall
from coatcheck.api.services import Inspection, RouteContext
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.keys import form_token, is_everywhere

Q = TypeVar("Q", bound=msgspec.Struct)
FORM: Final = "application/x-www-form-urlencoded"
_TOKEN: Final = "token"  # noqa: S105 - the name of a field
"""Name of the form field whose token proves that this service made the form."""
_CONFIRMED: Final = "confirmed"
"""Name of the form field with the digest of the question that was confirmed. Only a confirmation has this field."""
_WORD: Final = "word"
"""Name of the form field for a word that the user must type to confirm."""
_FORM_FIELDS: Final = 3 * MAX_PAIRS
"""Maximum fields of a form. A form may contain the IDs of a whole page of artifacts."""


class Input(NamedTuple):
    """An additional input on a page that asks for confirmation."""

    label: str
    name: str
    """Name of the input's field in the form."""
    hint: str = ""
    """A hint at possible values, shown beside the input."""


class PageCall(RouteCall):
    """A request to a page."""

    __slots__ = ("inspection", "refusal", "secret", "send", "sent", "session", "token", "who")

    def __init__(
        self,
        scope: HTTPScope,
        receive: Receive,
        send: Send,
        context: RouteContext,
        inspection: Inspection,
        who: Caller,
        session: str | None,
        secret: bytes,
    ) -> None:
        """Creates a call.

        Args:
            scope: the request's ASGI scope.
            receive: receives the request's body.
            send: sends the answer.
            context: the context of all routes.
            inspection: the use cases of the page.
            who: the caller.
            session: value of the caller's cookie; None: the caller is not signed in.
            secret: the key that seals cookies and forms.
        """
        super().__init__(scope, receive, context)
        self.send = send
        self.inspection = inspection
        self.who = who
        self.session = session
        self.secret = secret
        self.token = form_token(secret, session)
        """The token in the forms of this session."""
        self.refusal: CoatcheckError | None = None
        """Why the request was refused; None: it was not. The page that shows the reason also shows the form again, with
        the values that were sent."""
        self.sent: list[tuple[str, str]] | None = None
        """The fields of the form in the request; None: the request has no form, or it was not read yet."""

    @property
    def now(self) -> datetime:
        """The present time, for all decisions about the request."""
        return self.services.clock.now()

    @property
    def everywhere(self) -> bool:
        """Whether the caller administers all namespaces."""
        return is_everywhere(self.who) and self.may("admin")

    def may(self, scope: str) -> bool:
        """Returns whether the caller's key has a scope."""
        return scope in self.who.scopes

    def pairs(self) -> list[tuple[str, str]]:
        """Returns the parameters of the query string without blank ones, which browsers send for empty inputs."""
        return _pairs(self.scope["query_string"])

    def get_parameter(self, name: str) -> str | None:
        """Returns a parameter of the query string; None if it was left out or blank."""
        return dict(self.pairs()).get(name)

    def query(self, model: type[Q], *but: str) -> Q:
        """Returns the query string as a `model`, without the parameters named in `but`.

        Raises:
            CoatcheckError: `invalid_request`, which names the parameter.
        """
        return from_pairs([pair for pair in self.pairs() if pair[0] not in but], model, where="the query string")

    async def fields(self) -> list[tuple[str, str]]:
        """Returns the fields of the form that were filled in, after checking its token.

        The fields of the token and of a confirmation are left out.

        Raises:
            CoatcheckError: `unsupported_media_type`; `forbidden` if the token is not that of the session; the errors of
                reading a body.
        """
        if media_type(self.scope) != FORM:
            raise CoatcheckError(Code.UNSUPPORTED_MEDIA_TYPE, f"A form must be sent as {FORM}.", accepted=FORM)
        with self.context.budget.reserve() as reservation:
            # Keep the fields before checking the token: a form that is out of date is shown again with their values.
            self.sent = _pairs(await self.whole_body(SMALL, reservation))
        if not hmac.compare_digest(dict(self.sent).get(_TOKEN, "").encode(), self.token.encode()):
            raise CoatcheckError(Code.FORBIDDEN, "The form is out of date: reload the page and send the form again.")
        return [pair for pair in self.sent if pair[0] not in {_TOKEN, _CONFIRMED, _WORD}]

    def confirm(
        self,
        title: str,
        *,
        button: str,
        back: str,
        state: object = None,
        word: str | None = None,
        inputs: tuple[Input, ...] = (),
        problem: str | None = None,
        **details: object,
    ) -> "Shown | None":
        """Returns a page that asks the user to confirm the form; None if the request contains the confirmation.

        Args:
            title: the question.
            button: label of the button that confirms.
            back: path to which cancelling leads.
            state: the data that the question is about. If it has changed since the question, the page asks again.
            word: a word that the user must type to confirm; None: none is needed.
            inputs: additional inputs of the page.
            problem: why the action cannot be carried out as it was confirmed; the page asks again. None: it can.
            details: further values for confirm.jinja: `warning`, `note`, `changes`, `artifacts`.
        """
        # The digest binds a confirmation to its question, to the state and to the form's fields. Fields of inputs on
        # the confirming page itself are not part of it.
        separate = {_TOKEN, _CONFIRMED, _WORD, *(each.name for each in inputs)}
        hidden = [pair for pair in self.sent or () if pair[0] not in separate]
        encoded = msgspec.json.encode((title, state, hidden), order="deterministic")
        digest = hashlib.blake2b(encoded, digest_size=16).hexdigest()
        fields = dict(self.sent or ())
        confirmed = fields.get(_CONFIRMED)
        if confirmed is None:
            problem = None
        elif problem is None:
            if confirmed != digest:
                problem = "This has changed since you were asked. Look at it again."
            elif word is None or fields.get(_WORD) == word:
                return None
            else:
                problem = f"Type {word} to confirm."
        values = {
            **dict.fromkeys(("warning", "note", "changes", "artifacts")),
            **details,
            "title": title,
            "button": button,
            "back": back,
            "digest": digest,
            "word": word,
            "inputs": [(each, fields.get(each.name, "")) for each in inputs],
            "problem": problem,
            "action": self.address,
            "hidden": hidden,
        }
        # 409 says that the request confirmed something, but not what would be done now.
        return Shown("confirm.jinja", values, status=200 if confirmed is None else 409)

    @property
    def address(self) -> str:
        """The request's path and query string."""
        return address_of(self.scope)

    def typed_values_of(self, path: str) -> dict[str, list[str]] | None:
        """Returns the values sent in the refused form of a path, by field; None: no form of this path was refused."""
        if self.refusal is None or self.sent is None or self.scope["path"] != path:
            return None
        return {name: [value for each, value in self.sent if each == name] for name, _ in self.sent}

    async def form(self, model: type[Q]) -> Q:
        """Returns the request's form as a `model`.

        Raises:
            CoatcheckError: `invalid_request`, which names the field; the errors of `fields`.
        """
        return from_pairs(await self.fields(), model)


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(raw.decode("ascii"), errors="strict", max_num_fields=_FORM_FIELDS)
    except ValueError as error:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            f"The form or its address is not percent-encoded UTF-8, or has more than {_FORM_FIELDS} fields.",
        ) from error


@dataclass(frozen=True)
class Shown:
    """An answer rendered from a template."""

    template: str
    """Name of a file in `templates`."""
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: int = 200


@dataclass(frozen=True)
class Elsewhere:
    """An answer that sends the browser to another page (303)."""

    path: str
    """Path and query string within this service."""
    cookie: str | None = None
    """Value of a Set-Cookie field; None: the answer has none."""


PageAnswer = Shown | Elsewhere | None
"""The result of a page's function; None: the function has sent its answer itself."""


@dataclass(frozen=True)
class PageRoute:
    """A page: its method and path, the scope that a key needs, and the function that makes the page."""

    method: str
    path: str
    scope: str | None
    """Scope that a key needs; None: any key suffices."""
    keyless: bool
    """Whether the page needs no key at all."""
    function: Callable[..., Awaitable[PageAnswer]] = field(repr=False)
    """Makes the page; its arguments are the call and the parameters in the path."""

    def takes(self, path: str) -> re.Match[str] | None:
        """Returns a match that captures the parameters in a path; None if this page does not have the path."""
        return _pattern(self.path).fullmatch(path)


@cache
def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{([a-z_]+)\}", r"(?P<\1>[^/]+)", path))


def page(
    operation: str, *, scope: str | None = None, keyless: bool = False
) -> Callable[[Callable[..., Awaitable[PageAnswer]]], PageRoute]:
    """Declares the page that a function makes.

    Args:
        operation: method and path, such as `GET /ui/artifacts/{artifact_id}`.
        scope: the scope that a key needs; None: any key suffices.
        keyless: whether the page needs no key at all.
    """
    method, path = operation.split(" ")

    def declare(function: Callable[..., Awaitable[PageAnswer]]) -> PageRoute:
        return PageRoute(method, path, scope, keyless, function)

    return declare


def pages_of(*modules: ModuleType) -> list[PageRoute]:
    """Returns the pages that modules declare."""
    return [value for module in modules for value in vars(module).values() if isinstance(value, PageRoute)]


def address_of(scope: Scope) -> str:
    """Returns a request's path and query string."""
    query = scope["query_string"].decode("ascii", "replace")
    return f"{scope['path']}?{query}" if query else scope["path"]


def address(path: str, **query: object) -> str:
    """Returns a path with a query string of the values that are neither None nor empty."""
    parameters = {name: value for name, value in query.items() if value is not None and value != ""}
    return f"{path}?{urlencode(parameters)}" if parameters else path
