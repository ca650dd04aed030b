"""The common part of both clients: all operations of the service, and how a client is created."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from coatcheck_client.model_methods import ModelMethods
from coatcheck_client.options import OnUnreachable, Options, find_url, make_headers
from coatcheck_client.put_methods import PutMethods
from coatcheck_client.read_methods import ReadMethods
from coatcheck_client.requests import DeclaredFields
from coatcheck_client.retry import Retries

_LONGEST_DEADLINE: Final = 1_000_000
"""Maximum seconds of a deadline: all systems can wait for so long."""


class ClientMethods(PutMethods, ReadMethods, ModelMethods):
    """All of a client except its connection, which blocks, or waits on an event loop."""

    _connects: Callable[..., Any]
    """Creates the connection from the options, a transport, and a function that sleeps."""

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        session: str | None = None,
        card_tokens: int | None = None,
        inline_tokens: int | None = None,
        deadline: float = 10.0,
        timeout: float = 60.0,
        retries: Retries | None = None,
        on_unreachable: OnUnreachable = "ends",
        transport: Any = None,  # noqa: ANN401 - a blocking or an asynchronous transport of httpx
        sleep: Callable[[float], Any] | None = None,
    ) -> None:
        """Sends nothing yet.

        Args:
            url: the address of the service; None: `COATCHECK_URL`, or http://127.0.0.1:8321 if that is not set.
            key: the key to present, if the service needs one; None: `COATCHECK_KEY`, if that is set.
            session: the session to declare for every payload, unless a put specifies another.
            card_tokens: the budget of a card in tokens; declared in the same way.
            inline_tokens: maximum tokens of a payload that is returned unchanged; declared in the same way.
            deadline: maximum seconds that a put, or what a model waits for, may take in total, with all attempts and
                pauses. For files and streams: maximum seconds without any progress.
            timeout: seconds without any progress after which any other request has failed.
            retries: how often and for how long to try again.
            on_unreachable: what a put returns if the service fails or refuses: the `ends` of the payload, within the
                card's budget, or the `original`. Nothing is returned of a payload that was refused for a secret in it.
            transport: one of httpx's transports, to reach the service otherwise than by TCP without a proxy.
            sleep: waits for a number of seconds between attempts; a coroutine function for a client on an event loop.

        Raises:
            ValueError: for an invalid URL or key, or a deadline that is not more than 0 and at most a million seconds.
        """
        if not 0 < deadline <= _LONGEST_DEADLINE:  # not-a-number is in no range
            raise ValueError(f"deadline is {deadline}; it must be more than 0 and at most {_LONGEST_DEADLINE} seconds.")
        defaults = {"session": session, "card_tokens": card_tokens, "inline_tokens": inline_tokens}
        setup = Options(
            url=find_url(url),
            headers=make_headers(key),
            timeout=timeout,
            deadline=deadline,
            retries=retries or Retries(),
            on_unreachable=on_unreachable,
            defaults=cast("DeclaredFields", {name: each for name, each in defaults.items() if each is not None}),
        )
        super().__init__(setup, type(self)._connects(setup, transport, sleep))  # noqa: SLF001 - its own
