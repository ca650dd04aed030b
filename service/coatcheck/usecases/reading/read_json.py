"""Read JSON by path: return the values that a JSONPath query (RFC 9535) or a JSON Pointer (RFC 6901) finds.

The answer keeps within a token budget, and also says where each value is. The document is scanned and not loaded as a
whole: names, indices, slices, wildcards and filters over records work at any size, and at most 8 MiB are decoded at a
time. A caller who follows `next` gets every value, and every part of a long value. A call takes about a second at most,
and `next` continues where its time ran out. Nothing is stored except the record of the read.
"""

from typing import ClassVar, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from coatcheck.core.artifact import Artifact, Caller
from coatcheck.core.errors import CoatcheckError, Code, invalid_request
from coatcheck.core.jsonpath import page as cursors
from coatcheck.core.jsonpath.children import collect
from coatcheck.core.jsonpath.descend import not_json
from coatcheck.core.jsonpath.page import (
    PATIENCE_SECONDS,
    Kind,
    PageRequest,
    Resume,
    ValueCursor,
    ValueHit,
    ValuePage,
    compact,
)
from coatcheck.core.jsonpath.parse import parse_path
from coatcheck.core.jsonpath.query import QueryPlan, TextPart, normalize_path, part_of, plan_of
from coatcheck.core.jsonpath.render import (
    LISTED_CHARS,
    MIN_TOKENS,
    RenderedValues,
    contents,
    heading,
    render,
    render_notices,
    sentence,
    title,
)
from coatcheck.core.jsonpath.structure import ODD
from coatcheck.core.jsonpath.walk import Walk
from coatcheck.core.read_answer import DEFAULT_TOKENS, MAX_TEXT_CHARS, check_budget
from coatcheck.core.text.count import plural
from coatcheck.core.views.view import ViewName
from coatcheck.core.views.window import Extent
from coatcheck.reading.json_path_walk import DocumentContent, JsonContent, walk_over
from coatcheck.reading.view import Reader, ViewReading
from coatcheck.runtime.work_placement import aside, count_aside, in_pool
from coatcheck_client.contract.inert import MARK

MAX_LIMIT = 1_000
"""Maximum values of an answer; usually the token budget allows fewer."""
MAX_FIELDS = 20
"""Maximum members that `fields` may name; objects are reduced to these members. Chosen, not measured."""
_LOCATION_CHARS = 2_000
"""Maximum characters of a value's normalized path in the answer."""
_TITLE_TOKENS = 100
"""Tokens reserved for the line above a value, which names its path and size."""
_INLINE_PATH_CHARS = 256
"""Maximum characters of a path that is parsed on the event loop, which takes less than half a millisecond. Longer paths
are parsed in a thread."""
_PARTIAL = "This value is cut off, or it is not valid JSON; it is shown as it is written."
"""Notice above a value that is cut off or invalid."""
_NOT_YET = "No match so far: the time for one call is over. Go on with `next`."
"""Message of a call that found no value before its time ran out; the next call may find one."""

Stop = Literal["end", "limit", "max_tokens", "max_characters", "deadline"]


class JsonValue(Struct, frozen=True, kw_only=True):
    """A value that is shown."""

    location: str | None
    """The value's normalized path (RFC 9535 section 2.7); None: the path is longer than 2,000 characters."""
    kind: Kind
    """What the value is: object, array, string, number, boolean or null."""
    bytes: Extent | None
    """Where the value is written, in bytes of the answer's `view`, for `read?unit=byte`; None: that is not known."""
    complete: bool
    """Whether the whole value is shown, and is valid JSON."""
    value: msgspec.Raw | UnsetType = UNSET
    """The value itself, only if it is complete. With `fields`, an object is reduced to these members."""


class JsonAnswer(Struct, frozen=True, kw_only=True):
    """Values that a path finds."""

    id: str
    view: ViewName = "raw"
    """The view that was read: `text` for JSON in another charset than UTF-8, or inside other text."""
    text: str
    """The text for a model: one line for each value, or a part of one long value."""
    tokens: int
    """Tokens of `text`."""
    values: list[JsonValue]
    """The shown values, in order."""
    total: int
    """Number of values that were found so far."""
    total_exact: bool
    """False: only a part of the document was searched, so there may be more values than `total`."""
    complete: bool
    """Whether every value is shown from the cursor, or without a cursor from the beginning, to the document's end."""
    stopped: Stop
    """The reason why the text ends at this place."""
    next: str | None
    """The cursor with which a call with the same path continues; None: nothing is left."""
    partial: bool
    """Whether a part of the document could not be read or evaluated; `notices` name the part."""
    notices: list[str]
    message: str | None
    """A sentence that says why there is no value to show, and what the document has instead; None: there are values."""


class ReadJson(Reader):
    """Reads values of a JSON artifact by path, from its raw view, or from its text view if that has the document."""

    PATIENCE_SECONDS: ClassVar[float] = PATIENCE_SECONDS

    async def __call__(
        self,
        caller: Caller,
        number: int,
        *,
        path: str,
        limit: int | None = None,
        max_tokens: int = DEFAULT_TOKENS,
        cursor: str | None = None,
        fields: tuple[str, ...] = (),
    ) -> JsonAnswer:
        """Returns the values that `path` finds, from the beginning or from `cursor` on.

        Args:
            caller: the caller.
            number: number of the artifact.
            path: RFC 9535 (`$.items[?@.ok].id`) or RFC 6901 (`/items/0/id`), at most 4,096 characters.
            limit: maximum values of the answer, 1 to 1,000; None: as many as the budget allows, at most 1,000.
            max_tokens: token budget of `text`, 128 to 8,000.
            cursor: `next` of the previous answer, with the same path and fields; None: begin at the beginning.
            fields: the members to which objects are reduced, at most 20; `a.b` names the member `b` of the member `a`.
                Empty: objects are not reduced.

        Raises:
            CoatcheckError: `artifact_not_found`, `artifact_gone`, `invalid_path`, `invalid_cursor`,
                `invalid_request`, `not_json`, `json_too_large`, `integrity`; the errors of storage if a text view that
                was made for this call cannot be stored.
        """
        request = await self._parse_request(number, path, limit, max_tokens, cursor, fields)
        reading = await self.open(caller, number)
        answer = await self.prepare_answer(reading, await self._of(reading, request), max_tokens)
        self._view.report_read(caller, reading, answer.tokens, "json", {"path": path, "on": cursor is not None})
        return structs.replace(answer, view=reading.view)

    async def open(self, caller: Caller, number: int) -> ViewReading:
        """Opens the view that paths apply to.

        That is the raw view, or the text view if the text was decoded from another charset or the document is embedded
        in other text.

        Raises:
            CoatcheckError: `artifact_not_found`, `artifact_gone`, `integrity`; the errors of storage.
        """
        reading = await self._view(caller, number, view="raw")
        facts = reading.artifact.facts
        if facts.form is None or (facts.form.charset is None and facts.json_at is None):
            return reading
        return await self._view(caller, number, view="text")

    async def of(
        self, reading: ViewReading, number: int, *, path: str, limit: int | None, max_tokens: int, cursor: str | None
    ) -> JsonAnswer:
        """Reads values of a view that is open already, for a caller who needs only `text`; `values` is left empty.

        Raises:
            CoatcheckError: `invalid_path`, `invalid_cursor`, `invalid_request`, `not_json`, `json_too_large`,
                `integrity`.
        """
        request = await self._parse_request(number, path, limit, max_tokens, cursor, ())
        return await self.prepare_answer(reading, await self._of(reading, request, values=False), max_tokens)

    async def _parse_request(
        self, number: int, path: str, limit: int | None, max_tokens: int, cursor: str | None, fields: tuple[str, ...]
    ) -> "_Request":
        _check(limit, max_tokens, fields)
        plan = _plan_query(path) if len(path) <= _INLINE_PATH_CHARS else await in_pool(self._pool, _plan_query, path)
        return _Request(number, plan, "\0".join((path, *fields)), cursor, limit or MAX_LIMIT, max_tokens, fields)

    async def _of(self, reading: ViewReading, request: "_Request", *, values: bool = True) -> JsonAnswer:
        if reading.binary:
            raise not_json("it is binary")
        # A document that is embedded in other text is read as if it were the whole payload.
        content: JsonContent = reading.content
        if (json_at := reading.artifact.facts.json_at) is not None:
            content = DocumentContent(content, *json_at)
        # A cursor is bound to its path and fields, and to the version of the view, because its position means nothing
        # with others.
        target = _Target(reading.artifact, content, request, f"{reading.version}\0{request.question}")
        at = None if request.cursor is None else cursors.read(request.cursor, request.number, target.question)
        if isinstance(at, ValueCursor):
            return await self._inside(target, at)
        ask = PageRequest(
            plan=request.plan,
            size=content.size,
            limit=request.limit,
            chars=MAX_TEXT_CHARS,
            fields=request.fields,
            resume=at,
            patience=self._patience,
        )
        # Only at the end of the walk is it known whether the path finds a single value, which is shown in another form.
        page, rendered = await walk_over(content, self._walk(ask, request.max_tokens, first=at is None), self._pool)
        if not page.hits:
            return await self._none(target, page)
        # A single value is shown by itself. If it cannot be, it is shown as a list of one value.
        if rendered is None:
            answer = await self._alone(target, page)
            if answer is not None:
                return answer
            budget = request.max_tokens, MAX_TEXT_CHARS, self._tokenizer
            rendered = await in_pool(self._pool, render, page, 1, request.fields, *budget)
        return _answer(target, page, rendered, _values(page, rendered, request.fields) if values else [])

    def _walk(self, ask: PageRequest, max_tokens: int, *, first: bool) -> Walk[tuple[ValuePage, RenderedValues | None]]:
        """Returns the found values, and their text; None instead of the text if there is one value only, or no value.

        The text is rendered in the same scan, which saves a change of threads.
        """
        page = yield from collect(ask, self._clock)
        is_single = first and page.exact and page.total == len(page.hits) == 1 and page.hits[0].cells is None
        if is_single or not page.hits:
            return page, None
        seen_count = ask.resume.seen if ask.resume else 0
        return page, render(page, seen_count + 1, ask.fields, max_tokens, MAX_TEXT_CHARS, self._tokenizer)

    async def _alone(self, target: "_Target", page: ValuePage) -> JsonAnswer | None:
        """Shows a single value by itself: the characters of a string, or the beginning of JSON that does not fit.

        Returns None if a list of one value is the better form.
        """
        hit = page.hits[0]
        fits = hit.whole and len(hit.text) <= LISTED_CHARS
        fits = fits and await count_aside(hit.text, self._tokenizer, self._pool) <= target.max_tokens - _TITLE_TOKENS
        # A short value is shown as a list of one. A string is shown by itself, so that its line breaks are shown.
        if hit.span is None or (fits and hit.kind != "string"):
            return None
        start, end = hit.span
        text = hit.kind == "string"
        partial = hit.state != "sound"
        if text:  # the quotes are left out; a string that is cut off has no closing quote
            at = ValueCursor(start + 1, end if hit.state == "cut" else end - 1, text=True, partial=partial)
        else:
            at = ValueCursor(start, end, text=False, partial=partial)
        first = [title(hit, f"({hit.kind}, {plural(end - start, 'byte')})")]
        if hit.state == "sound" and hit.kind in {"object", "array"}:
            first = await self._contents(target, hit, start, end)
        part = await self._part(target, at, "\n".join([*first, *render_notices(page.notices)]))
        whole = hit.whole and at.byte + part.used >= at.end
        value = _raw(hit.text, odd=ODD in page.notices) if whole else UNSET
        json_value = JsonValue(
            location=_location(hit),
            kind=hit.kind,
            bytes=Extent(start, end),
            complete=value is not UNSET,
            value=value,
        )
        return _part_answer(target, at, part, [json_value], page.notices, partial=page.partial)

    async def _contents(self, target: "_Target", hit: ValueHit, start: int, end: int) -> list[str]:
        """Returns lines that list the contents of an object or array that is too long to be shown whole."""
        deadline = self._clock() + self._patience
        inside = await walk_over(target.content, contents(start, end, hit.kind, self._clock, deadline), self._pool)
        tokens, chars = target.max_tokens // 2 - _TITLE_TOKENS, MAX_TEXT_CHARS // 3
        return await in_pool(self._pool, heading, hit, end - start, inside, tokens, chars, self._tokenizer)

    async def _none(self, target: "_Target", page: ValuePage) -> JsonAnswer:
        """Returns an answer without values, with a sentence that says why there are none."""
        message = page.message or ("No match." if page.next is None else _NOT_YET)
        whole = " ".join((message, *page.notices))
        text, tokens = await in_pool(self._pool, sentence, whole, target.max_tokens, self._tokenizer)
        answer = _answer(target, page, RenderedValues(text, tokens, 0, 0, None), [])
        return structs.replace(answer, message=message)

    async def _inside(self, target: "_Target", at: ValueCursor) -> JsonAnswer:
        """Returns the answer with the next part of a long value."""
        if not 0 <= at.byte <= at.end <= target.content.size:
            raise CoatcheckError(Code.INVALID_CURSOR, "This cursor points past the end. Start again without it.")
        notices = [_PARTIAL] if at.partial else []
        heading = f"{MARK} continued; {at.end - at.byte:,} bytes are left"
        part = await self._part(target, at, "\n".join([heading, *render_notices(notices)]))
        return _part_answer(target, at, part, [], notices, partial=at.partial)

    async def _part(self, target: "_Target", at: ValueCursor, heading: str) -> TextPart:
        """Returns the part of a long value that begins at `at` and fits into the budget, under a heading."""
        heading_tokens = self._tokenizer.count(heading) + 2
        if heading_tokens > target.max_tokens // 2:  # the path in the heading may have many rare characters
            heading, heading_tokens = MARK, 4
        chars = MAX_TEXT_CHARS - len(heading) - 2
        # The read is as long as the characters of an answer can be in UTF-8: a character has up to four bytes.
        raw = await target.content.read(at.byte, min(at.end, at.byte + 4 * MAX_TEXT_CHARS))
        part = await aside(
            self._pool,
            len(raw),
            part_of,
            raw,
            text=at.text,
            ends=at.byte + len(raw) >= at.end,
            chars=chars,
            tokens=target.max_tokens - heading_tokens,
            tokenizer=self._tokenizer,
        )
        text = f"{heading}\n{part.text}"
        return TextPart(text, self._tokenizer.count(text), part.used)


class _Request(Struct, frozen=True):
    """A caller's request about an artifact, after it was parsed and checked."""

    number: int
    plan: QueryPlan
    """The plan by which one scan finds the values of the path."""
    question: str
    """The path and fields in one text."""
    cursor: str | None
    """Where to continue; None: begin at the beginning."""
    limit: int
    max_tokens: int
    fields: tuple[str, ...]
    """The members to which objects are reduced; empty: objects are not reduced."""


class _Target(Struct, frozen=True):
    """The values that all steps of one answer share."""

    artifact: Artifact
    content: JsonContent
    request: _Request
    question: str
    """The version of the view, the path and the fields in one text, to which a cursor is bound."""

    @property
    def max_tokens(self) -> int:
        """Token budget of the text."""
        return self.request.max_tokens

    def cursor(self, at: Resume | ValueCursor) -> str:
        """Returns the cursor with which the next call continues at `at`."""
        return cursors.write(at, self.request.number, self.question)


def _plan_query(path: str) -> QueryPlan:
    return plan_of(parse_path(path))


def _check(limit: int | None, max_tokens: int, fields: tuple[str, ...]) -> None:
    check_budget(max_tokens, MIN_TOKENS)
    if limit is not None and not 1 <= limit <= MAX_LIMIT:
        raise invalid_request(f"limit must be 1 to {MAX_LIMIT:,}.", parameter="limit")
    if len(fields) > MAX_FIELDS or not all(fields):
        raise invalid_request(f"fields must be 1 to {MAX_FIELDS} names, joined with commas.", parameter="fields")


def _location(hit: ValueHit) -> str | None:
    """Returns the normalized path of a value; None if it is too long to be in an answer."""
    if len(hit.path) > _LOCATION_CHARS:
        return None
    location = normalize_path(hit.path)
    return location if len(location) <= _LOCATION_CHARS else None


def _raw(text: str, *, odd: bool) -> msgspec.Raw | UnsetType:
    """Returns a value as JSON for programs; UNSET if it is not valid JSON."""
    try:
        data = text.encode()
        # The scanner also accepts some invalid JSON. So if it noticed an oddity, a strict parser checks the value.
        if odd:
            msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return UNSET
    return msgspec.Raw(data)


def _value(hit: ValueHit, clip: int, fields: tuple[str, ...], *, odd: bool) -> JsonValue:
    """Returns a found value for the answer; it is complete only if its text has at most `clip` characters."""
    if hit.cells is None:
        whole = hit.whole and len(hit.text) <= clip
        text = hit.text
    else:
        whole = all(len(cell) <= clip and not cell.endswith("…") for cell in hit.cells)
        members = zip(fields, hit.cells, strict=True)
        text = "{" + ",".join(f"{compact(name)}:{cell}" for name, cell in members if cell) + "}"
    span = hit.span
    value = _raw(text, odd=odd) if whole else UNSET
    return JsonValue(
        location=_location(hit),
        kind=hit.kind,
        bytes=None if span is None else Extent(*span),
        complete=value is not UNSET,
        value=value,
    )


def _values(page: ValuePage, rendered: RenderedValues, fields: tuple[str, ...]) -> list[JsonValue]:
    odd = ODD in page.notices
    return [_value(hit, rendered.clip, fields, odd=odd) for hit in page.hits[: rendered.value_count]]


def _answer(target: _Target, page: ValuePage, rendered: RenderedValues, values: list[JsonValue]) -> JsonAnswer:
    following: Resume | None = page.next
    stopped: Stop = page.stopped
    # If the budget allowed fewer values than the page has, the cursor continues at the first value that is not shown.
    if rendered.value_count < len(page.hits):
        following = page.hits[rendered.value_count].resume
        stopped = rendered.limit or "max_tokens"
    return JsonAnswer(
        id=target.artifact.id,
        text=rendered.text,
        tokens=rendered.tokens,
        values=values,
        total=page.total,
        total_exact=page.exact,
        complete=following is None and not page.partial,
        stopped=stopped,
        next=None if following is None else target.cursor(following),
        partial=page.partial,
        notices=page.notices,
        message=None,
    )


def _part_answer(
    target: _Target, at: ValueCursor, part: TextPart, values: list[JsonValue], notices: list[str], *, partial: bool
) -> JsonAnswer:
    """Returns the answer with one part of a long value, which continues at the end of the part."""
    end = at.byte + part.used
    has_more = end < at.end
    stopped: Stop = "end"
    if has_more:
        stopped = "max_characters" if len(part.text) > MAX_TEXT_CHARS - 200 else "max_tokens"
    following = structs.replace(at, byte=end)
    return JsonAnswer(
        id=target.artifact.id,
        text=part.text,
        tokens=part.tokens,
        values=values,
        total=1,
        total_exact=True,
        complete=not has_more and not partial,
        stopped=stopped,
        next=target.cursor(following) if has_more else None,
        partial=partial,
        notices=notices,
        message=None,
    )
