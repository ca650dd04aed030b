"""The callback: requests get cards, models are offered `read_artifact`, and LiteLLM's own loop answers their reads.

No conversation is stored; only reads of the latest turns are kept in memory. A failure here never breaks a request: it
is logged, and the request continues unchanged. A client that offers `read_artifact` itself must answer the calls of it.
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
"""How requests are compacted by default: outputs are replaced at once, so that no message is sent in two forms."""
EXEMPT: Final = ("$web_search",)
"""Tools that the service exempts by default; repeated here because a list of exempt tools replaces that default."""
_ROUNDS: Final = 12
"""How often a model may read before it must answer with what it has."""
_TURNS: Final = 2_000
"""Maximum turns whose reads the proxy remembers. The reads of a turn have a few thousand tokens."""
_SMALL: Final = 1_000
"""A search's response of up to this many characters stays as it is."""
_LINES: Final = 20
"""Maximum citations that a warning or an error lists."""
_MARK: Final = "coatcheck"
"""Key that marks a request whose reads are answered here, in its metadata. The value is a list of the conversation's
digest and the request's ID."""


class CoatcheckCallback(CustomLogger):
    """Coatcheck for all clients of a LiteLLM proxy: Chat Completions, Anthropic's Messages and OpenAI's Responses."""

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
            client: the client to use; None for one with `COATCHECK_URL` and `COATCHECK_KEY`, or the local defaults.
            session: the session that payloads belong to; None for LiteLLM's session of the request, if it has one.
            exempt_tools: tools whose results and arguments stay as they are.
            policy: how to compact, as in the OpenAPI document; added to the default, which protects nothing.
            searches: what a web search's result becomes: the `passages` in its own turn and the summary in later turns,
                the `summary` at once, or, with `off`, a card like any other.
            search_tools: names of tools that search the web. Tools whose name or result shows that they do need not be
                listed.
            citations: whether citations in final answers are checked. `report` logs each citation that is in no text
                that the model was shown, or that could not be checked. `block` also refuses, with 422, an answer with a
                citation that is in no such text, unless the answer is streamed.
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
        """Returns the request compacted, with the reads that the client never saw.

        The tool is offered if there are cards, or if the compaction put any other ID of an artifact into the request.
        """
        form = FORMATS.get(str(getattr(call_type, "value", call_type)))
        if form is None or not isinstance(data.get(form.key), list) or not _is_answerable(data):
            return data
        try:
            seen = unseen.Conversation(getattr(user_api_key_dict, "api_key", None), data[form.key])
            messages, has_ids = await self._compacted(form, await unseen.put_back(self._unseen, form, seen), data)
            if has_ids or has_card(messages):
                metadata = "litellm_metadata" if "litellm_metadata" in data else "metadata"
                data[metadata] = {**(data.get(metadata) or {}), _MARK: [seen.digest, uuid4().hex]}
                data["tools"] = [*(data.get("tools") or ()), *declarations(form.name)]
                data.setdefault("max_agentic_loops", _ROUNDS + 1)
            data[form.key] = messages
        except Exception as e:  # noqa: BLE001 - a failure must not stop the request
            log.warning("a request goes on as it came: %s", e)
        return data

    async def _compacted(self, form: Format, messages: list[Raw], data: Raw) -> tuple[list[Raw], bool]:
        """Returns the messages, and whether they have a card, marker or notice of this compaction."""
        if not is_worth_asking(messages, self._policy):
            return messages, False
        session = self._session or data.get("litellm_session_id")
        session_fields: dict[str, Any] = (
            {} if session is None else {"session": bound_identifier(str(session), SESSION_CHARS)}
        )
        messages = await self._with_searches(form, messages, session_fields)
        # A request with IDs of artifacts also gets the tool, so its texts may name calls of it.
        session_fields["tools"] = "read_artifact"
        done = await asyncio.to_thread(
            self._client.compact, {form.key: messages}, policy=self._policy, **session_fields
        )
        has_ids = bool(done.report["omitted"]) or any(change["artifact_id"] for change in done.report["changes"])
        return done.body[form.key] if done.report["changed"] else messages, has_ids

    async def _with_searches(self, form: Format, messages: list[Raw], session_fields: Raw) -> list[Raw]:
        """Returns the messages with passages or summaries in place of the responses of web searches.

        Clients send each raw response again in every request; each time the same text takes its place. Compaction then
        leaves only the summaries of searches in earlier turns.
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
                try:  # this conversation has not seen the results of the session's others
                    ask = functools.partial(self._client.search_results, text, across_session=False, **asked)
                    found = await asyncio.to_thread(ask)
                except ServiceError as e:
                    log.warning("a search's response becomes a card [%s]: %s", e.code, e.detail)
                    continue
                if not found.stored and found.id:
                    continue
                shown = found.text if self._searches == "passages" else found.summary["text"]
                self._searched.set_cache(key, shown)
            changed[call_id] = shown
        return with_results(messages, changed) if changed else messages

    async def async_pre_call_deployment_hook(self, kwargs: Any, call_type: Any) -> Any:
        """Makes LiteLLM request the whole answer if the model may read in it; the client still gets a stream.

        Anthropic's Messages do not need this: LiteLLM holds back their streams itself.
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
        """Returns whether the model reads, so that the loop must run, and what the loop needs to know.

        If the model calls only the client's tools, its reads before these calls are kept for the client's next request.
        """
        conversation, form = _conversation(kwargs), format_of(response)
        calls = form.calls(response)
        reads = [call for call in calls if is_own(form.name_of(call))]
        if conversation is None:  # the client answers reads; LiteLLM held the stream back for the tool's name
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
        """Returns the model's next request, with the answers to its reads.

        If the model also calls the client's tools, or has read too often, its response goes to the client instead,
        without the reads.
        """
        if "whole" in tools:
            return AgenticLoopPlan(response_override=response)
        form, reads, others = format_of(response), tools["tool_calls"], tools["others"]
        if others or tools["depth"] >= _ROUNDS:
            if others:
                kept = unseen.Unseen(unseen.trailing(form, messages), reads, await self._answers(form, reads))
                await unseen.keep(self._unseen, form, _conversation(kwargs) or "", others, kept)
            form.strip(response, {form.id_of(call) for call in reads})
            # LiteLLM sends the response that was changed in place, unless it has held a stream back.
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
        """Returns the answer to the model's next request, with the tokens that LiteLLM must log for the request before.

        LiteLLM logs each request to the model with the tokens in the answer that is returned here. So that spend is
        right, these must be the request's own tokens. The client gets the sum of all requests later.
        """
        before = plan.metadata["usage"]
        if isinstance(response, dict):  # in the Messages format, which LiteLLM has logged already
            return {**response, "usage": added(plain(response.get("usage")), before)}
        used, request = getattr(response, "usage", None), _request(kwargs)
        if used is None or request is None:
            return response
        self._spent.set_cache(request, added(plain(used), self._spent.get_cache(request) or {}))
        return response.model_copy(update={"usage": type(used)(**before)})

    async def async_post_call_success_hook(self, data: Any, user_api_key_dict: Any, response: Any) -> Any:
        """Returns the answer, with the tokens of all requests that it took.

        Raises:
            HTTPException: 503 if the request after a read failed, so that LiteLLM would give the read to the client;
                422 if the answer is blocked because of its citations.
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
        """Yields the parts of a stream, with the tokens of all requests that the answer took.

        Streams of Messages arrive as bytes and pass unchanged: LiteLLM itself reports a failed read in them.

        Raises:
            HTTPException: 503 if the request after a read failed.
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
        """Reports the citations of a final answer, once. For a stream, LiteLLM calls this after the stream's end.

        LiteLLM calls this for each request to the model, always with the final answer, so once more for each read.
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
        """Returns the report of a final answer.

        None for an answer that is not final, if the check fails, or if the provider keeps the conversation, so that the
        texts that the model was shown are not known here.
        """
        answer = answer_text(response)
        if not answer or options.get("previous_response_id"):
            return None
        reads = self._reads.get_cache(request) if request else None
        shown = shown_texts([messages, reads, options.get("system"), options.get("instructions")])
        try:
            return await asyncio.to_thread(self._client.check_answer, answer, [*shown, *found_texts(response)])
        except Exception as e:  # noqa: BLE001 - a failure must not stop the answer
            log.warning("the citations of an answer were not checked: %s", e)
            return None

    def _spent_on(self, data: Raw) -> Raw:
        request = _request(data)
        return (self._spent.get_cache(request) or {}) if request else {}

    async def _answers(self, form: Format, calls: list[Raw]) -> list[Raw]:
        return [await asyncio.to_thread(form.answered, self._client, call) for call in calls]


def _refuse(names: Iterable[str]) -> None:
    """Raises an error if one of these tools is `read_artifact`, whose calls clients cannot answer."""
    if any(map(is_own, names)):
        raise HTTPException(503, "The model's request after a read failed. Send the request again.")


def _is_answerable(data: Raw) -> bool:
    """Returns whether reads can be answered here: the client has no such tool, and waits for one answer."""
    offered = [tool.get("name") or (tool.get("function") or {}).get("name") for tool in data.get("tools") or ()]
    return not any(map(is_own, offered)) and not data.get("background") and (data.get("n") or 1) == 1


def _marked(kwargs: Mapping[str, Any]) -> list[str] | None:
    """Returns the value of `_MARK` in a request; None if the request's reads are not answered here."""
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
