"""The table of providers: how each is recognised by its response's structure, and what is peculiar to the response.

The general rule (generic_results.py) finds the results of any response, and `COMMON` finds the fields of each result;
half of the rows therefore only give a response its provider's name. The first row whose conditions hold is used, so
narrow rows precede wide ones. Names in paths are compared without case, `_` and `-` (values.py). Sources: the
documentation and SDK types of the search APIs, and the transformations of LiteLLM 1.109. If the name of a field could
not be verified, several names are tried. `complete_response` adds values that four providers keep apart from their
results: dates, excerpts, an abstract, actions.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.search.model import AnswerKind, ProviderAnswer, SearchResponse, SearchResult
from coatcheck.core.search.responses.markup import actions_of
from coatcheck.core.search.responses.values import Record, find_values, iso, items_of, record_of, text_at, text_of


class Fields(Struct, frozen=True, kw_only=True):
    """The names of a result's members for each field, the most informative first. All names are in compared form."""

    url: tuple[str, ...]
    title: tuple[str, ...]
    snippet: tuple[str, ...]
    more: tuple[str, ...]
    content: tuple[str, ...]
    date: tuple[str, ...]
    score: tuple[str, ...]
    site: tuple[str, ...]
    author: tuple[str, ...]


COMMON: Final = Fields(
    url=(
        *("htmlurl", "url", "link", "href", "uri", "firsturl", "sourceurl", "pageurl", "weburl", "permalink"),
        *("source", "id"),
    ),
    title=("title", "name", "heading", "headline", "pagetitle", "htmltitle", "ogtitle", "question", "filename"),
    snippet=(
        *("snippet", "description", "body", "abstract", "excerpt", "summary", "htmlsnippet", "caption", "teaser"),
        *("preview", "selftext"),
    ),
    more=("extrasnippets", "snippets", "highlights", "excerpts", "extractiveanswers"),
    content=(
        *("rawcontent", "markdown", "content", "text", "pagecontent", "fulltext", "html", "rawhtml", "answer"),
        *("chunk", "passage"),
    ),
    date=(
        *("publisheddate", "publishdate", "datepublished", "publishedat", "publishedtime", "publishtime", "pubdate"),
        "published",
        *("pageage", "date", "article:publishedtime", "pagemap.metatags[].article:publishedtime", "age"),
        *("lastupdated", "datelastcrawled", "timestamp"),
    ),
    score=("score", "relevancescore", "relevance", "similarity"),
    site=("sitename", "site", "source", "publisher", "profile.name", "displaylink", "metaurl.hostname", "hostname"),
    author=("author", "authors", "byline"),
)
ANSWERS: Final[dict[str, AnswerKind]] = {
    "answer": "answer",
    "choices[].message.content": "answer",
    "output[].content[].text": "answer",
    "[role=assistant].content[].text": "answer",
    "content[type=text].text": "answer",
    "candidates[].content.parts[].text": "answer",
    "output.content": "answer",
    "definition": "answer",
    "answer_box": "answer",
    "ai_overview": "answer",
    "computation": "answer",
    "knowledge_graph": "knowledge",
    "infobox.results[]": "knowledge",
    "infoboxes[]": "knowledge",
    "entities.value[]": "knowledge",
    "related_questions[]": "question",
    "peopleAlsoAsk[]": "question",
    "faq.results[]": "question",
}
"""Paths at which any response may have an answer of the provider or of a model. If the answer is an object, it has a
title, a text and a URL."""
_BOXES: Final = (
    "answerbox aioverview computation knowledgegraph infobox infoboxes entities relatedquestions peoplealsoask faq"
)
BOXES: Final = frozenset(_BOXES.split())
"""Names of answers, in compared form, that may look like lists of results."""
QUERIES: Final = """
    query q search_query queries[] search_parameters.q search_information.query_displayed query.original
    data.queryContext.originalQuery queryContext.originalQuery queries.request[].searchTerms
    tasks[].result[].keyword tasks[].data.keyword
    candidates[].groundingMetadata.webSearchQueries[] groundingMetadata.webSearchQueries[] webSearchQueries[]
    content[type=server_tool_use].input.query output[].action.query action.query [].action.query
"""
"""Paths at which a response may repeat the query."""

PROVIDERS: Final[dict[str, tuple[str, ...]]] = {
    "serpapi": ("organic_results", "search_metadata search_parameters"),
    "serper": ("organic", "searchParameters"),
    "brave-llm-context": ("grounding.generic",),
    "brave": ("web.results", "query.original", "type==news results"),
    "you": ("results.web", "results.news", "hits[].snippets"),
    "firecrawl": (
        *("data.web", "data.news success", "success data[].url", "success data[].metadata", "data.markdown"),
    ),
    "bocha": ("data.webPages.value",),
    "bing": ("webPages.value", "_type==SearchResponse", "_type==News value"),
    "google-cse": ("kind==customsearch#search", "items[].displayLink"),
    "dataforseo": ("tasks[].result",),
    "jina": ("code status data[].url", "code status data.url"),
    "duckduckgo": ("RelatedTopics", "AbstractURL"),
    "gemini": ("candidates[].groundingMetadata", "groundingMetadata.groundingChunks", "groundingChunks[].web"),
    "anthropic": (
        *("content[].type==web_search_tool_result", "type==web_search_tool_result", "[].type==web_search_result"),
        *("[].type==search_result", "content[].type==search_result", "type==search_result"),
    ),
    "openai": (
        *("output[].type==web_search_call", "type==web_search_call", "[].type==web_search_call"),
        *("output[].type==file_search_call", "output[].content[].annotations[].type==url_citation"),
        "choices[].message.annotations[].url_citation",
    ),
    "openai-file-search": ("type==file_search_call", "results[].file_id"),
    "kimi": (
        "search_result.search_id",
        *("messages[].tool_calls[].function.name==$web_search", "tool_calls[].function.name==$web_search"),
    ),
    "claude-code": ("results[].tool_use_id", "durationSeconds results"),
    "litellm": ("object==search results",),
    "parallel": ("results[].excerpts", "search_id results"),
    "searxng": ("results unresponsive_engines", "results[].engines", "results infoboxes"),
    "exa": (
        *("resolvedSearchType", "costDollars", "results[].highlights", "results[].publishedDate results[].id"),
        "citations[].publishedDate",
    ),
    "perplexity": ("results[].last_updated", "search_results[].url", "results server_time"),
    "tavily": (
        *("results response_time", "results follow_up_questions", "results[].raw_content", "results failed_results"),
        "results[].content results[].score results[].title",
    ),
    "linkup": ("results[].name results[].content", "answer sources[].name"),
    "ddgs": ("[].href [].body", "[].body [].url"),
}
"""How each provider is recognised, in the order in which providers are tried. One of the provider's rows must hold. A
row holds if all of its conditions, separated by blanks, hold. A condition is a path, or `path==text`."""


class Shape(Struct, frozen=True, kw_only=True):
    """The peculiarities of one provider's responses."""

    lists: str = ""
    """Paths, separated by blanks, to lists of results or to one result; `.` is the response itself. Needed if a
    response has several lists, since the general rule would take the longest first, or advertisements."""
    fields: Fields = COMMON
    answers: dict[str, AnswerKind] = {}
    """Further answers of the provider: the kind of answer, by path."""
    distinct: bool = False
    """Whether the response lists a source once per citation, so that repetitions must be removed."""
    ignored_members: str = ""
    """Names of members that have nothing to read in this provider's responses, but have in the responses of others."""
    note: str = ""
    """A warning that every response of the provider gets; empty if there is none."""


ORDINARY: Final = Shape()
_SHORT: Final = replace(COMMON, snippet=("content", *COMMON.snippet), content=("rawcontent", "markdown", "text"))
"""Fields of responses in which `content` is the snippet."""
SHAPES: Final[dict[str, Shape]] = {
    "serpapi": Shape(lists="organic_results news_results top_stories"),
    "serper": Shape(lists="organic news topStories videos"),
    "brave": Shape(lists="web.results news.results discussions.results videos.results results"),
    "firecrawl": Shape(lists="data.web data.news data"),
    "bocha": Shape(
        fields=replace(COMMON, snippet=("snippet", "description"), content=("summary", "content", "text")),
    ),
    "google-cse": Shape(ignored_members="url"),
    "you": Shape(lists="results.web results.news hits", ignored_members="metadata"),
    "bing": Shape(lists="webPages.value news.value value videos.value"),
    "gemini": Shape(
        lists="candidates[].groundingMetadata.groundingChunks groundingMetadata.groundingChunks groundingChunks",
    ),
    "dataforseo": Shape(
        lists="tasks[].result[].items[type=organic] tasks[].result[].items[type=news_search]",
        answers={
            "tasks[].result[].items[type=featured_snippet]": "answer",
            "tasks[].result[].items[type=answer_box]": "answer",
            "tasks[].result[].items[type=ai_overview]": "answer",
            "tasks[].result[].items[type=knowledge_graph]": "knowledge",
            "tasks[].result[].items[type=people_also_ask].items[]": "question",
        },
    ),
    "duckduckgo": Shape(
        lists="Results RelatedTopics RelatedTopics[].Topics",
        fields=replace(COMMON, title=("text",), snippet=("text",), content=()),
        ignored_members="heading abstract abstracttext abstracturl abstractsource entity image infobox",
    ),
    "anthropic": Shape(
        lists="content[type=web_search_tool_result].content content[type=web_search_result] "
        "content[type=search_result] .",
        ignored_members="source title citations",
    ),
    "openai": Shape(
        lists="output[].results output[].content[].annotations [].content[].annotations output[].action.sources "
        "action.sources [].action.sources citations choices[].message.annotations",
        distinct=True,
        ignored_members="text metadata user store reasoning instructions",
    ),
    "kimi": Shape(
        ignored_members="searchresult tools messages content toolcalls reasoningcontent",
        note="Kimi's $web_search keeps its results on the provider's side: there is nothing to read, and its arguments "
        "must be sent back unchanged.",
    ),
    "brave-llm-context": Shape(lists="grounding.generic grounding.poi grounding.map", ignored_members="sources"),
    "claude-code": Shape(lists="results[].content results", answers={"results[]": "commentary"}),
    "searxng": Shape(fields=replace(_SHORT, site=()), answers={"answers[]": "answer"}),
    "exa": Shape(
        fields=replace(COMMON, snippet=("summary", "snippet"), content=("text", "content")), ignored_members="context"
    ),
    "perplexity": Shape(ignored_members="citations"),
    "tavily": Shape(fields=_SHORT),
}
"""The shapes of the providers whose responses have peculiarities."""

ANSWER_TITLES: Final = ("title", "heading", "question", "name", "infobox")
ANSWER_TEXTS: Final = ("answer", "snippet", "text", "description", "abstract", "content", "result", "list", "longdesc")
ANSWER_URLS: Final = ("link", "url", "website", "descriptionlink", "source.link", "id")
_HARMLESS: Final = """
    id requestid responsetime object query q took time timing took_ms total count totalcount totalresults usage
    credits creditsused cost version status success code ok page pagesize limit offset hasmore next nextpage
    sessionid traceid servertime model type error errors warning warnings detail images queries answertype
    autodate autoparameters autopromptstring baseurl cachecontrol caller completed corrections costdollars
    created createdat createtime definitionsource definitionurl durationseconds effectivefilters expiresat
    failedresults followupquestions groundingsupports imageheight imageislogo imagewidth incompletedetails
    iserror kind latency logid maxoutputtokens meta mixed modelversion msg numberofresults pagination
    paralleltoolcalls previousresponseid prompt_feedback promptfeedback rankingresponse readlink redirect
    relatedsearches resolvedsearchtype responseid role scrapeid searchcount searchentrypoint searchid
    searchinformation searchmetadata searchparameters searchtime searchtype serpapipagination servicetier sort
    spelling statuscode statusmessage stopreason stopsequence suggestions systemfingerprint taskscount
    taskserror temperature toolchoice tooluseid topp totalestimatedmatches truncation unresponsiveengines
    usagemetadata websearchqueries
    """
HARMLESS: Final = frozenset(_HARMLESS.split())
"""Names of members that say nothing about the results in any response."""


def complete_response(response: SearchResponse, value: object) -> SearchResponse:
    """Returns the response with values that the provider keeps apart from its results."""
    if response.provider == "brave-llm-context":
        sources = next((record for each in find_values(value, "sources") if (record := record_of(each))), None) or {}
        return replace(response, results=tuple(_with_age(result, sources) for result in response.results))
    if response.provider == "openai":
        return replace(response, actions=actions_of(value))
    if response.provider == "gemini":
        return _with_supports(response, value)
    return _with_abstract(response, value) if response.provider == "duckduckgo" else response


def _with_age(result: SearchResult, sources: Record) -> SearchResult:
    """Returns a result with the age that Brave gives for its URL: the first unambiguous one, else the first."""
    about = record_of(sources.get(result.url or "")) or {}
    ages = [text for age in items_of(about.get("age")) or [about.get("age")] if (text := text_of(age))]
    if not ages or result.date:
        return result
    certain = next((age for age in ages if iso(age)), ages[0])
    site = result.site or text_of(about.get("hostname")) or None
    return replace(result, date=certain, date_iso=iso(certain), site=site)


_SUPPORTS: Final = ("candidates[].groundingMetadata.groundingSupports[]", "groundingMetadata.groundingSupports[]")


def _with_supports(response: SearchResponse, value: object) -> SearchResponse:
    """Returns Gemini's results with the passages of the answer that they support, which are their only text.

    A result's score is the highest confidence of its supports.
    """
    texts: dict[int, list[str]] = {}
    scores: dict[int, float] = {}
    for support in (each for path in (*_SUPPORTS, "groundingSupports[]") for each in find_values(value, path)):
        segment = text_at(support, "segment.text")
        numbers = find_values(support, "groundingChunkIndices[]")
        confidence = find_values(support, "confidenceScores[]")
        for place, number in enumerate(numbers):
            if not isinstance(number, int) or isinstance(number, bool):
                continue
            if segment and segment not in texts.setdefault(number, []):
                texts[number].append(segment)
            sure = confidence[place] if place < len(confidence) else None
            if isinstance(sure, (int, float)) and not isinstance(sure, bool) and 0 <= sure <= 1:
                scores[number] = max(scores.get(number, 0.0), float(sure))
    results = tuple(
        replace(
            result,
            snippet=result.snippet or "\n".join(texts.get(result.rank - 1, ())),
            score=result.score if result.score is not None else scores.get(result.rank - 1),
        )
        for result in response.results
    )
    return replace(response, results=results)


def _with_abstract(response: SearchResponse, value: object) -> SearchResponse:
    text = text_at(value, "AbstractText", "Abstract")
    if not text:
        return response
    title, url = text_at(value, "Heading"), text_at(value, "AbstractURL") or None
    abstract = ProviderAnswer(kind="knowledge", text=text, title=title, url=url)
    return replace(response, answers=(abstract, *response.answers))
