"""The tests that every stack has: a class for a stack says how an agent is made and run, and gets them."""

from importlib.metadata import version
from typing import Any, ClassVar

import pytest

from coatcheck_client import Client, Retries
from model_server import model_server
from scenario import LOG, failing, plan, record, sees_cards, sees_originals, tokens_of
from wire_formats import Call


class StackTests:
    """Derived classes set `name`, `package` and `modes`, and have `run`."""

    name: ClassVar[str]
    """The page in `docs/how-to`."""
    package: ClassVar[str]
    """The framework's distribution."""
    modes: ClassVar[tuple[str, ...]] = ("async",)
    """Ways to run an agent: of `async`, `sync` and `stream`, those that the framework has."""
    error: ClassVar[str] = "no such worker"
    """What the model sees of an error that a tool raises; some frameworks keep its words to themselves."""
    parallel: ClassVar[bool] = True
    """Whether the framework executes several calls of one message."""

    async def run(self, client: Client, url: str, mode: str, **options: Any) -> str:
        """Make an agent with all of scenario.TOOLS and the integration, run it once, and return its final answer.

        Args:
            client: what the integration uses.
            url: of the model server; each SDK adds its own `/v1`.
            mode: one of `modes`.
            options: for the integration, such as `exempt_tools`.
        """
        raise NotImplementedError

    def framework(self) -> str:
        """The distribution and its version, for the table."""
        return f"{self.package} {version(self.package)}"

    async def test_a_card_is_read_on_and_the_answer_has_what_was_in_the_middle(
        self, service_url: str, mode: str
    ) -> None:
        with model_server(plan()) as model, Client(service_url, session=self.name) as client:
            answer = await self.run(client, model.url, mode)
            sees_cards(model, answer, client)
            if mode == self.modes[0]:
                record(self.name, self.framework(), model, client, "cards")

    @pytest.mark.parametrize("how", ["stopped", "hanging", "refusing"])
    async def test_an_agent_goes_on_with_the_original(self, service_url: str, how: str, mode: str) -> None:
        fast = {"deadline": 0.5, "retries": Retries(attempts=1)}
        with failing(how) as url, model_server(plan()) as model, Client(url, **fast) as client:
            answer = await self.run(client, model.url, mode)
            sees_originals(model, answer)
            if how == "refusing" and mode == self.modes[0]:
                with Client(service_url) as counting:
                    record(self.name, self.framework(), model, counting, "originals")

    async def test_calls_made_together_become_cards_each(self, service_url: str, mode: str) -> None:
        together = [Call("get_old_log", {}), Call("get_log", {})]
        first = [together] if self.parallel else [[one] for one in together]
        with model_server(plan(*first)) as model, Client(service_url) as client:
            answer = await self.run(client, model.url, mode)
            cards = [one for one in model.results[len(first)] if "art_" in one]
            assert len(cards) == 2
            assert all(tokens_of(client, one) <= 620 for one in cards)
            assert cards[0] != cards[1]
            assert "answer is" in answer

    async def test_short_results_stay_and_errors_that_tools_raise_are_the_frameworks(
        self, service_url: str, mode: str
    ) -> None:
        with model_server(plan([Call("get_status", {})], [Call("fail", {})], [Call("get_log", {})])) as model:
            with Client(service_url) as client:
                answer = await self.run(client, model.url, mode)
            assert "7 workers run." in model.results[1][0]
            assert self.error in model.results[2][1]
            assert "answer is" in answer

    async def test_an_exempt_tool_is_left_alone(self, service_url: str, mode: str) -> None:
        with model_server(plan()) as model, Client(service_url) as client:
            answer = await self.run(client, model.url, mode, exempt_tools=("get_log",))
        sees_originals(model, answer)
        assert len(model.results[1][0]) >= len(LOG)
