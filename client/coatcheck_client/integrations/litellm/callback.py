"""The callback: requests get cards, models are offered `read_artifact`, and LiteLLM's own loop answers their reads.

It keeps no conversation and never breaks a request: a failure here is logged, and the request continues unchanged. A
client that has `read_artifact` itself is left to answer its calls.
"""

# ruff: noqa: ANN401, ARG002 - LiteLLM's hooks are called by name
# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false

import asyncio
import functools
import hashlib
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from typing import Any, Final, Literal
from uuid import uuid4

from fastapi import HTTPException
from litellm.caching.in_memory_cache import InMemoryCache
from litellm.integrations.custom_logger import CustomLogger
from litellm.types.integrations.custom_logger import (
    HEADROOM_INTERCEPTION_PREFIX,
    AgenticLoopPlan,
    AgenticLoopRequestPatch,
    as_converted_stream,
)

from coatcheck_client import Client, ServiceError, declarations
from coatcheck_client.citations import AnswerReport
from coatcheck_client.contract.cards import is_own
from coatcheck_client.contract.identifiers import SESSION_CHARS, bound_identifier
from coatcheck_client.contract.searches import is_search, search_fields
from coatcheck_client.contract.tools import READ
from coatcheck_client.integrations.litellm import unseen
from coatcheck_client.integrations.litellm.answers import answer_text, found_texts, shown_texts
from coatcheck_client.integrations.litellm.formats import FORMATS, Format, format_of
from coatcheck_client.integrations.litellm.messages import Raw, has_card, is_worth_asking, results_of, with_results
from coatcheck_client.integrations.litellm.usage import added, plain, with_usage
from coatcheck_client.options import Searches

log = logging.getLogger(__name__)

POLICY: Final[Mapping[str, Any]] = {"protect": "none"}
"""How requests are compacted by default: at once, so that what was sent is never sent differently."""
EXEMPT: Final = ("$web_search",)
"""The service's own exemption, which a list of exempt tools would replace."""
_ROUNDS: Final = 12
"""How often a model may read before it must answer with what it has."""
_TURNS: Final = 2_000
"""Turns whose reads the proxy remembers, the latest ones; each has a few thousand tokens."""
_SMALL: Final = 1_000
"""Characters up to which a search's response stays as it is."""
_LINES: Final = 20
"""Citations that a warning or an error lists."""
_MARK: Final = "coatcheck"
"""Key in the metadata of a request whose reads are answered here: which conversation it is, and which request."""


class CoatcheckCallback(CustomLogger):
    """Coatcheck for all clients of a LiteLLM proxy. Chat completions, Anthropic's Messages and OpenAI's Responses."""

    server_fulfilled_tool_names = frozenset({READ.name})

    def __init__(
        self,
        client: Client | None = None,
        *,
        session: str | None = None,
        exempt_tools: Collection[str] = (),
        policy: Mapping[str, Any] | None = None,
        searches: Searches = "passages",
        search_tools: Collection[str] = (),
        citations: Literal["off", "report", "block"] = "off",
        on_citations: Callable[[AnswerReport], object] | None = None,
    ) -> None:
        """Sends nothing yet.

        Args:
            client: how to reach the service; None for `COATCHECK_URL` and `COATCHECK_KEY`, or the local default.
            session: the session of payloads; None for LiteLLM's session of a request, if it has one.
            exempt_tools: tools whose results and arguments stay as they are.
            policy: how to compact, as in the OpenAPI document; added to the default, which protects nothing.
            searches: what a web search's result becomes in its turn: `passages`, or the `summary` that also stays in
                later turns, or a card like any other (`off`).
            search_tools: names of tools that search the web, in addition to those whose name or result says so.
            citations: what happens with final answers: `report` logs what they cite that stands in nothing that the
                model was shown, or could not be checked; `block` also refuses those that cite without a source with
                422, unless they are streamed.
            on_citations: called with the report of each final answer, unless `citations` is `off`.
        """
        super().__init__()
        self._client = client or Client()
        self._session = session
        self._policy = {**POLICY, "exempt_tools": [*EXEMPT, *exempt_tools], **(policy or {})}
        self._searches: Searches = searches
        self._search_tools = frozenset(search_tools)
        self._searched = InMemoryCache(max_size_in_memory=_TURNS)
        self._citations, self._on_citations = citations, on_citations
        self._reads = InMemoryCache(max_size_in_memory=_TURNS)
        self._reported = InMemoryCache(max_size_in_memory=_TURNS)
        self._unseen = InMemoryCache(max_size_in_memory=_TURNS)
        self._spent = InMemoryCache(max_size_in_memory=_TURNS)

    # ------------------------------------------------------------------------------------------ the request

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: Any, call_type: Any) -> Any:
        """Returns the request with cards, with the model's reads that the client never saw, and with the tool."""
        form = FORMATS.get(str(getattr(call_type, "value", call_type)))
        if form is None or not isinstance(data.get(form.key), list) or not _is_answerable(data):
            return data
        try:
            seen = unseen.Conversation(getattr(user_api_key_dict, "api_key", None), data[form.key])
            messages = await self._compacted(form, await unseen.put_back(self._unseen, form, seen), data)
            if has_card(messages):
                metadata = "litellm_metadata" if "litellm_metadata" in data else "metadata"
                data[metadata] = {**(data.get(metadata) or {}), _MARK: [seen.digest, uuid4().hex]}
                data["tools"] = [*(data.get("tools") or ()), *declarations(form.name)]
                data.setdefault("max_agentic_loops", _ROUNDS + 1)
            data[form.key] = messages
        except Exception as e:  # noqa: BLE001 - a request is worth more than a card
            log.warning("a request goes on as it came: %s", e)
        return data

    async def _compacted(self, form: Format, messages: list[Raw], data: Raw) -> list[Raw]:
        if not is_worth_asking(messages, int(self._policy.get("inline_tokens", 1_000))):
            return messages
        session = self._session or data.get("litellm_session_id")
        session_fields: dict[str, Any] = (
            {} if session is None else {"session": bound_identifier(str(session), SESSION_CHARS)}
        )
        messages = await self._with_searches(form, messages, session_fields)
        # Whoever gets a card gets the tool with it, so the cards may name its calls.
        session_fields["tools"] = "read_artifact"
        done = await asyncio.to_thread(
            self._client.compact, {form.key: messages}, policy=self._policy, **session_fields
        )
        return done.body[form.key] if done.report["changed"] else messages

    async def _with_searches(self, form: Format, messages: list[Raw], session_fields: Raw) -> list[Raw]:
        """Returns the messages with what a model reads of web searches; compaction leaves the summary of earlier ones.

        Clients send each raw response again in every request, and get the same text in its place each time.
        """
        if self._searches == "off":
            return messages
        calls = {form.id_of(call): call for one in messages for call in form.calls_of(one)}
        changed: dict[str, str] = {}
        for call_id, text in results_of(messages):
            name = form.name_of(calls.get(call_id, {}))
            fields = search_fields(name, form.arguments_of(calls.get(call_id, {})), self._search_tools)
            if len(text) <= _SMALL or not is_search(text, name, fields.get("kind")):
                continue
            key = hashlib.sha256(f"{session_fields} {call_id} {text}".encode("utf-8", "replace")).hexdigest()
            shown = self._searched.get_cache(key)
            if shown is None:
                asked = {
                    "tool_name": name or None,
                    "tool_call_id": call_id,
                    "query": fields.get("query"),
                    **session_fields,
                }
                try:  # what the session's other conversations have seen, this one has not
                    ask = functools.partial(self._client.search_results, text, across_session=False, **asked)
                    found = await asyncio.to_thread(ask)
                except ServiceError as e:
                    log.warning("a search's response becomes a card [%s]: %s", e.code, e.detail)
                    continue
                if not found.stored and found.id is not None:
                    continue
                shown = found.text if self._searches == "passages" else found.summary["text"]
                self._searched.set_cache(key, shown)
            changed[call_id] = shown
        return with_results(messages, changed) if changed else messages

    async def async_pre_call_deployment_hook(self, kwargs: Any, call_type: Any) -> Any:
        """Requests a stream in which reads may be needed as a whole; LiteLLM streams the answer to the client.

        Messages of Anthropic do not need this: LiteLLM holds back their streams itself.
        """
        form = FORMATS.get(str(getattr(call_type, "value", call_type)))
        if form is None or form.holds_streams or not kwargs.get("stream") or _conversation(kwargs) is None:
            return None
        return as_converted_stream(kwargs, HEADROOM_INTERCEPTION_PREFIX)

    # ------------------------------------------------------------------------------------------ the answer

    async def async_should_run_agentic_loop(
        self,
        response: Any,
        model: str,
        messages: list[Raw],
        tools: Any,
        stream: bool,
        custom_llm_provider: str,
        kwargs: Raw,
    ) -> tuple[bool, Raw]:
        """Returns whether the model reads. Its reads are kept for the request with the results of its other calls."""
        conversation, form = _conversation(kwargs), format_of(response)
        calls = form.calls(response)
        reads = [call for call in calls if is_own(form.name_of(call))]
        if conversation is None:  # the client's own; for a stream that LiteLLM has held back because of the tool's name
            return bool(stream and reads), {"whole": True}
        others = [form.id_of(call) for call in calls if call not in reads]
        if not reads:
            if others and (before := unseen.trailing(form, messages)):
                await unseen.keep(self._unseen, form, conversation, others, unseen.Unseen(before, [], []))
            return False, {}
        return True, {"tool_calls": reads, "others": others, "depth": _depth(kwargs)}

    async def async_build_agentic_loop_plan(
        self,
        tools: Raw,
        model: str,
        messages: list[Raw],
        response: Any,
        anthropic_messages_provider_config: Any,
        anthropic_messages_optional_request_params: Raw,
        logging_obj: Any,
        stream: bool,
        kwargs: Raw,
    ) -> AgenticLoopPlan:
        """Returns the model's next request, with the answers; calls of the client's tools go to the client instead."""
        if "whole" in tools:
            return AgenticLoopPlan(response_override=response)
        form, reads, others = format_of(response), tools["tool_calls"], tools["others"]
        if others or tools["depth"] >= _ROUNDS:
            if others:
                kept = unseen.Unseen(unseen.trailing(form, messages), reads, await self._answers(form, reads))
                await unseen.keep(self._unseen, form, _conversation(kwargs) or "", others, kept)
            form.strip(response, {form.id_of(call) for call in reads})
            # LiteLLM streams what was changed in place, unless it has held a stream back.
            return AgenticLoopPlan(response_override=response if stream else None)
        answers = await self._answers(form, reads)
        if self._citations != "off" and (request := _request(kwargs)):
            self._reads.set_cache(request, [*(self._reads.get_cache(request) or ()), *form.results(answers)])
        parameters: Raw = {"tool_choice": form.no_choice} if tools["depth"] == _ROUNDS - 1 else {}
        return AgenticLoopPlan(
            run_agentic_loop=True,
            request_patch=AgenticLoopRequestPatch(
                messages=[*messages, *form.turn(response, reads), *form.results(answers)], optional_params=parameters
            ),
            metadata={"usage": plain(response.get("usage") if isinstance(response, dict) else response.usage)},
        )

    # ------------------------------------------------------------------------------------------ what the client gets

    async def async_post_agentic_loop_response_hook(self, response: Any, plan: AgenticLoopPlan, kwargs: Raw) -> Any:
        """Returns the answer to the model's next request.

        LiteLLM logs each of a model's requests with the tokens of the answer that it ends with, which must be its own,
        so that spend is right; clients are told the sum.
        """
        before = plan.metadata["usage"]
        if isinstance(response, dict):  # for Messages; these are logged before
            return {**response, "usage": added(plain(response.get("usage")), before)}
        used, request = getattr(response, "usage", None), _request(kwargs)
        if used is None or request is None:
            return response
        self._spent.set_cache(request, added(plain(used), self._spent.get_cache(request) or {}))
        return response.model_copy(update={"usage": type(used)(**before)})

    async def async_post_call_success_hook(self, data: Any, user_api_key_dict: Any, response: Any) -> Any:
        """Returns the answer, with the tokens of all requests that it took.

        Raises:
            HTTPException: 503 if the request after a read failed, and LiteLLM would give the client the read; 422 if
                the answer is blocked for its citations.
        """
        if self._citations == "block":
            messages = [data.get("messages"), data.get("input")]
            report = await self._check_citations(response, messages, data, _request(data))
            if report is not None and (lines := report.describe("unsupported", limit=_LINES)):
                raise HTTPException(422, f"The model's answer cites what stands in none of its sources:\n{lines}")
        if _request(data) is None:
            return response
        form = format_of(response)
        _refuse(form.name_of(call) for call in form.calls(response))
        return with_usage(response, self._spent_on(data))

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: Any
    ) -> AsyncGenerator[Any, None]:
        """Yields the stream, likewise.

        Streams of Messages are bytes here, in which LiteLLM reports a failed read itself.
        """
        async for part in response:
            if _request(request_data) is None or isinstance(part, bytes | str):
                yield part
                continue
            _refuse((FORMATS["acompletion"] if hasattr(part, "choices") else FORMATS["aresponses"]).names_in(part))
            whole = getattr(part, "response", None)
            if whole is None:
                yield with_usage(part, self._spent_on(request_data))
            else:
                yield part.model_copy(update={"response": with_usage(whole, self._spent_on(request_data))})

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Reports what a final answer cites; of a stream, LiteLLM gives it after the end.

        LiteLLM calls this for each of the model's requests with the answer that it ends with, so once after each read.
        """
        request = _request(kwargs.get("litellm_params") or {})
        key = request or kwargs.get("litellm_call_id") or ""
        if self._citations == "off" or kwargs.get("call_type") not in FORMATS or self._reported.get_cache(key):
            return
        if answer_text(response_obj):
            self._reported.set_cache(key, value=True)
        options = kwargs.get("optional_params") or {}
        report = await self._check_citations(response_obj, kwargs.get("messages"), options, request)
        if report is not None and (lines := report.describe("unsupported", "unchecked", limit=_LINES)):
            log.warning("an answer cites what stands in no source, or could not be checked:\n%s", lines)
        if report is not None and self._on_citations is not None:
            self._on_citations(report)

    async def _check_citations(
        self, response: Any, messages: Any, options: Mapping[str, Any], request: str | None
    ) -> AnswerReport | None:
        """Returns the report of a final answer; None of any other, and if the provider keeps the conversation."""
        answer = answer_text(response)
        if not answer or options.get("previous_response_id"):
            return None
        reads = self._reads.get_cache(request) if request else None
        shown = shown_texts([messages, reads, options.get("system"), options.get("instructions")])
        try:
            return await asyncio.to_thread(self._client.check_answer, answer, [*shown, *found_texts(response)])
        except Exception as e:  # noqa: BLE001 - an answer is worth more than its check
            log.warning("the citations of an answer were not checked: %s", e)
            return None

    def _spent_on(self, data: Raw) -> Raw:
        request = _request(data)
        return (self._spent.get_cache(request) or {}) if request else {}

    async def _answers(self, form: Format, calls: list[Raw]) -> list[Raw]:
        return [await asyncio.to_thread(form.answered, self._client, call) for call in calls]


def _refuse(names: Iterable[str]) -> None:
    """Keeps reads from clients, which cannot answer them."""
    if any(map(is_own, names)):
        raise HTTPException(503, "The model's request after a read failed. Send the request again.")


def _is_answerable(data: Raw) -> bool:
    """Returns whether reads can be answered here: the client has no such tool, and waits for one answer."""
    offered = [tool.get("name") or (tool.get("function") or {}).get("name") for tool in data.get("tools") or ()]
    return not any(map(is_own, offered)) and not data.get("background") and (data.get("n") or 1) == 1


def _marked(kwargs: Mapping[str, Any]) -> list[str] | None:
    """Returns the mark of a request; None if its reads are not answered here."""
    for name in ("litellm_metadata", "metadata"):
        known = kwargs.get(name)
        if isinstance(known, Mapping) and _MARK in known:
            return known[_MARK]
    return None


def _conversation(kwargs: Mapping[str, Any]) -> str | None:
    mark = _marked(kwargs)
    return None if mark is None else mark[0]


def _request(kwargs: Mapping[str, Any]) -> str | None:
    mark = _marked(kwargs)
    return None if mark is None else mark[1]


def _depth(kwargs: Raw) -> int:
    return int(kwargs.get("_agentic_loop_depth") or 0)
