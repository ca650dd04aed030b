"""The table of providers: how each is recognised by the structure of its response, and where its results are.

The first shape with a mark that holds is taken, so narrow marks precede wide ones. Names in paths are compared without
case, `_` and `-` (values.py). Sources: the search APIs' own documents and SDK types, and the transformations of LiteLLM
1.109; a field that could not be verified is one of several that are tried. To add a provider, add a row.
`complete_response` adds what four providers keep apart from their results: dates, excerpts, an abstract, actions.
"""

from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from coatcheck.core.search.model import UNKNOWN, AnswerKind, ProviderAnswer, SearchResponse, SearchResult
from coatcheck.core.search.responses.markup import actions_of
from coatcheck.core.search.responses.values import Record, find_values, iso, items_of, record_of, text_at, text_of


class Fields(Struct, frozen=True, kw_only=True):
    """Where a result keeps what, most informative first. All names are in compared form."""

    url: tuple[str, ...]
    title: tuple[str, ...]
    snippet: tuple[str, ...]
    more: tuple[str, ...]
    content: tuple[str, ...]
    date: tuple[str, ...]
    score: tuple[str, ...]
    site: tuple[str, ...]
    language: tuple[str, ...]
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
    language=("language", "lang"),
    author=("author", "authors", "byline"),
)
ANSWERS: Final[dict[str, AnswerKind]] = {
    "answer": "answer",
    "choices[].message.content": "answer",
    "output[].content[].text": "answer",
    "[role=assistant].content[].text": "answer",
    "content[type=text].text": "answer",
    "candidates[].content.parts[].text": "answer",
}
"""Where a provider's answer or a model's is, in any response."""
_SHORT: Final = replace(COMMON, snippet=("content", *COMMON.snippet), content=("rawcontent", "markdown", "text"))
"""For responses in which `content` is the snippet."""


class Shape(Struct, frozen=True, kw_only=True):
    """One format of one provider's response."""

    provider: str
    conditions: tuple[str, ...]
    """Any of these must hold: conditions separated by blanks, all of which hold. A condition is a path, or
    `path==text`."""
    lists: str = ""
    """Paths, separated by blanks, to lists of results or to one result; `.` is the response itself, and `name:path`
    names a list that is not the main one."""
    fields: Fields = COMMON
    query: str = "query"
    """Paths, separated by blanks, to the query as the provider repeats it."""
    answers: dict[str, AnswerKind] = field(default_factory=lambda: ANSWERS)
    """The provider's own answers, by path. Objects there have a title, a text and a URL."""
    distinct: bool = False
    """Whether the list names a source once per citation."""
    ignored_members: str = ""
    """Members of the response with nothing to read."""
    note: str = ""
    """A warning that always applies."""


UNNAMED: Final = Shape(provider=UNKNOWN, conditions=(), query="query q search_query queries[]")
"""For responses of no provider that is known."""

_GOOGLE_KNOWN: Final = (
    "searchmetadata searchparameters searchinformation pagination serpapipagination relatedsearches credits"
)

SHAPES: Final = (
    Shape(
        provider="serpapi",
        conditions=("organic_results", "search_metadata search_parameters"),
        lists="organic_results news:news_results top_stories:top_stories",
        query="search_parameters.q search_information.query_displayed",
        answers={
            "answer_box": "answer",
            "ai_overview": "answer",
            "knowledge_graph": "knowledge",
            "related_questions[]": "question",
        },
        ignored_members=_GOOGLE_KNOWN,
    ),
    Shape(
        provider="serper",
        conditions=("organic", "searchParameters"),
        lists="organic news:news top_stories:topStories videos:videos",
        query="searchParameters.q",
        answers={"answerBox": "answer", "knowledgeGraph": "knowledge", "peopleAlsoAsk[]": "question"},
        ignored_members=_GOOGLE_KNOWN,
    ),
    Shape(
        provider="brave-llm-context",
        conditions=("grounding.generic",),
        lists="grounding.generic poi:grounding.poi map:grounding.map",
        ignored_members="sources",
    ),
    Shape(
        provider="brave",
        conditions=("web.results", "query.original", "type==news results"),
        lists="web.results news:news.results discussions:discussions.results videos:videos.results results",
        query="query.original",
        answers={"infobox.results[]": "knowledge", "faq.results[]": "question"},
        ignored_members="type mixed summarizer locations",
    ),
    Shape(
        provider="you",
        conditions=("results.web", "results.news", "hits[].snippets"),
        lists="results.web news:results.news hits",
        ignored_members="metadata latency",
    ),
    Shape(
        provider="firecrawl",
        conditions=("data.web", "data.news success", "success data[].url", "success data[].metadata", "data.markdown"),
        lists="data.web news:data.news data",
        ignored_members="success status completed total creditsused expiresat next id scrapeid",
    ),
    Shape(
        provider="bocha",
        conditions=("data.webPages.value",),
        fields=replace(COMMON, snippet=("snippet", "description"), content=("summary", "content", "text")),
        query="data.queryContext.originalQuery",
        ignored_members="code logid msg",
    ),
    Shape(
        provider="bing",
        conditions=("webPages.value", "_type==SearchResponse", "_type==News value"),
        lists="webPages.value news:news.value news:value videos:videos.value",
        query="queryContext.originalQuery",
        answers={"entities.value[]": "knowledge", "computation": "answer"},
        ignored_members="type rankingresponse relatedsearches readlink totalestimatedmatches sort",
    ),
    Shape(
        provider="google-cse",
        conditions=("kind==customsearch#search", "items[].displayLink"),
        query="queries.request[].searchTerms",
        ignored_members="kind url queries context searchinformation spelling",
    ),
    Shape(
        provider="dataforseo",
        conditions=("tasks[].result",),
        lists="tasks[].result[].items[type=organic] news:tasks[].result[].items[type=news_search]",
        query="tasks[].result[].keyword tasks[].data.keyword",
        answers={
            "tasks[].result[].items[type=featured_snippet]": "answer",
            "tasks[].result[].items[type=answer_box]": "answer",
            "tasks[].result[].items[type=ai_overview]": "answer",
            "tasks[].result[].items[type=knowledge_graph]": "knowledge",
            "tasks[].result[].items[type=people_also_ask].items[]": "question",
        },
        ignored_members="version statuscode statusmessage time cost taskscount taskserror",
    ),
    Shape(
        provider="jina",
        conditions=("code status data[].url", "code status data.url"),
        ignored_members="code status meta",
    ),
    Shape(
        provider="duckduckgo",
        conditions=("RelatedTopics", "AbstractURL"),
        lists="Results RelatedTopics RelatedTopics[].Topics",
        fields=replace(COMMON, title=("text",), snippet=("text",), content=()),
        query="",
        answers={"Answer": "answer", "Definition": "answer"},
        ignored_members="heading abstract abstracttext abstracturl abstractsource entity type image meta infobox "
        "redirect "
        "answertype definitionsource definitionurl imagewidth imageheight imageislogo",
    ),
    Shape(
        provider="gemini",
        conditions=("candidates[].groundingMetadata", "groundingMetadata.groundingChunks", "groundingChunks[].web"),
        lists="candidates[].groundingMetadata.groundingChunks groundingMetadata.groundingChunks groundingChunks",
        query="candidates[].groundingMetadata.webSearchQueries[] groundingMetadata.webSearchQueries[] "
        "webSearchQueries[]",
        ignored_members="usagemetadata modelversion responseid createtime searchentrypoint groundingsupports "
        "websearchqueries "
        "prompt_feedback promptfeedback",
    ),
    Shape(
        provider="anthropic",
        conditions=(
            "content[].type==web_search_tool_result",
            "type==web_search_tool_result",
            "[].type==web_search_result",
        ),
        lists="content[type=web_search_tool_result].content content[type=web_search_result] .",
        fields=replace(COMMON, content=()),
        query="content[type=server_tool_use].input.query",
        ignored_members="type id role model tooluseid stopreason stopsequence usage caller",
    ),
    Shape(
        provider="anthropic",
        conditions=("[].type==search_result", "content[].type==search_result", "type==search_result"),
        lists="content[type=search_result] .",
        ignored_members="type tooluseid iserror cachecontrol source title citations",
    ),
    Shape(
        provider="openai",
        conditions=(
            *("output[].type==web_search_call", "type==web_search_call", "[].type==web_search_call"),
            *("output[].type==file_search_call", "output[].content[].annotations[].type==url_citation"),
        ),
        lists="output[].results output[].content[].annotations [].content[].annotations cited:output[].action.sources "
        "cited:action.sources cited:[].action.sources cited:citations",
        query="output[].action.query action.query [].action.query",
        distinct=True,
        ignored_members="id object createdat model status type usage tools toolchoice error incompletedetails "
        "instructions text "
        "paralleltoolcalls temperature topp reasoning previousresponseid maxoutputtokens truncation metadata user "
        "store",
    ),
    Shape(
        provider="openai",
        conditions=("choices[].message.annotations[].url_citation",),
        lists="choices[].message.annotations",
        query="",
        distinct=True,
        ignored_members="id object created model usage systemfingerprint servicetier",
    ),
    Shape(
        provider="openai-file-search",
        conditions=("type==file_search_call", "results[].file_id"),
        query="queries[]",
        ignored_members="type id status",
    ),
    Shape(
        provider="kimi",
        conditions=(
            "search_result.search_id",
            "messages[].tool_calls[].function.name==$web_search",
            "tool_calls[].function.name==$web_search",
        ),
        query="",
        ignored_members="searchresult usage tools messages model role content toolcalls reasoningcontent",
        note="Kimi's $web_search keeps its results on the provider's side: there is nothing to read, and its arguments "
        "must be sent back unchanged.",
    ),
    Shape(
        provider="claude-code",
        conditions=("results[].tool_use_id", "durationSeconds results"),
        lists="results[].content results",
        answers={"results[]": "commentary"},
        ignored_members="durationseconds searchcount",
    ),
    Shape(
        provider="litellm",
        conditions=("object==search results",),
        ignored_members="object",
    ),
    Shape(
        provider="parallel",
        conditions=("results[].excerpts", "search_id results"),
        ignored_members="searchid usage sessionid",
    ),
    Shape(
        provider="searxng",
        conditions=("results unresponsive_engines", "results[].engines", "results infoboxes"),
        fields=replace(_SHORT, site=()),
        answers={"answers[]": "answer", "infoboxes[]": "knowledge"},
        ignored_members="numberofresults suggestions corrections unresponsiveengines",
    ),
    Shape(
        provider="exa",
        conditions=(
            *("resolvedSearchType", "costDollars", "results[].highlights", "results[].publishedDate results[].id"),
            "citations[].publishedDate",
        ),
        fields=replace(COMMON, snippet=("summary", "snippet"), content=("text", "content")),
        answers={"answer": "answer", "output.content": "answer"},
        ignored_members="requestid resolvedsearchtype searchtype searchtime autopromptstring autodate costdollars "
        "context output "
        "effectivefilters",
    ),
    Shape(
        provider="perplexity",
        conditions=("results[].last_updated", "search_results[].url", "results server_time"),
        query="",
        ignored_members="id servertime model created usage object citations images",
    ),
    Shape(
        provider="tavily",
        conditions=(
            *(
                "results response_time",
                "results follow_up_questions",
                "results[].raw_content",
                "results failed_results",
            ),
            "results[].content results[].score results[].title",
        ),
        fields=_SHORT,
        ignored_members="responsetime requestid followupquestions usage autoparameters baseurl failedresults",
    ),
    Shape(
        provider="linkup",
        conditions=("results[].name results[].content", "answer sources[].name"),
    ),
    Shape(
        provider="ddgs",
        conditions=("[].href [].body", "[].body [].url"),
        query="",
    ),
)
"""All shapes, in the order in which they are tried."""

ANSWER_TITLES: Final = ("title", "heading", "question", "name", "infobox")
ANSWER_TEXTS: Final = ("answer", "snippet", "text", "description", "abstract", "content", "result", "list", "longdesc")
ANSWER_URLS: Final = ("link", "url", "website", "descriptionlink", "source.link", "id")
_HARMLESS: Final = """
    id requestid responsetime object query q took time timing took_ms total count totalcount totalresults usage credits
    creditsused cost version status success code ok page pagesize limit offset hasmore next nextpage sessionid traceid
    servertime model type error errors warning warnings detail images queries
    """
HARMLESS: Final = frozenset(_HARMLESS.split())
"""Members of any response that say nothing about the results."""


def complete_response(response: SearchResponse, value: object) -> SearchResponse:
    """Returns the response including what is elsewhere in it."""
    if response.provider == "brave-llm-context":
        sources = next((record for each in find_values(value, "sources") if (record := record_of(each))), None) or {}
        return replace(response, results=tuple(_with_age(result, sources) for result in response.results))
    if response.provider == "openai":
        return replace(response, actions=actions_of(value))
    if response.provider == "gemini":
        return _with_supports(response, value)
    return _with_abstract(response, value) if response.provider == "duckduckgo" else response


def _with_age(result: SearchResult, sources: Record) -> SearchResult:
    """Returns a result with the age that Brave's context gives for its URL; the first unambiguous one counts."""
    about = record_of(sources.get(result.url or "")) or {}
    ages = [text for age in items_of(about.get("age")) or [about.get("age")] if (text := text_of(age))]
    if not ages or result.date:
        return result
    certain = next((age for age in ages if iso(age)), ages[0])
    site = result.site or text_of(about.get("hostname")) or None
    return replace(result, date=certain, date_iso=iso(certain), site=site)


_SUPPORTS: Final = ("candidates[].groundingMetadata.groundingSupports[]", "groundingMetadata.groundingSupports[]")


def _with_supports(response: SearchResponse, value: object) -> SearchResponse:
    """Returns results with the text that Gemini's answer took from them, its only one.

    A score is that of the best support.
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
