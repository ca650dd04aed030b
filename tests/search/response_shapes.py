"""Responses as providers and their tools send them: what was found, what failed, what nobody can read."""

# ruff: noqa: E501, ISC004 - responses are as long as they are

from typing import Any, Final

ONE: Final = "https://a.example/1"
TWO: Final = "https://b.example/2"
WORDS: Final = "The copper bridge was opened in the winter of 1904."
OTHER: Final = "A second source tells of granite and of the lantern."

FOUND: Final[dict[str, Any]] = {
    "LangChain DuckDuckGo, bracketed": f"[snippet: {WORDS}, title: One, link: {ONE}], "
    f"[snippet: {OTHER}, title: Two, link: {TWO}]",
    "LangChain DuckDuckGo, bare": f"snippet: {WORDS}, title: One, link: {ONE}, snippet: {OTHER}, title: Two, link: {TWO}",
    "LangChain DuckDuckGo news": f"[snippet: {WORDS}, title: One, link: {ONE}, date: 2026-11-19T10:00:00+00:00, source: A]"
    f", [snippet: {OTHER}, title: Two, link: {TWO}, date: 2026-11-18T10:00:00+00:00, source: B]",
    "DuckDuckGo Lite as text": f"1.\tOne\n\t{WORDS}\n\ta.example/1\n2.\tTwo\n\t{OTHER}\n\tb.example/2\n",
    "DuckDuckGo MCP": f"Found 2 search results:\n\n1. One\n   URL: {ONE}\n   Summary: {WORDS}\n\n2. Two\n   URL: {TWO}\n"
    f"   Summary: {OTHER}\n",
    "smolagents": f"## Search Results\n\n[One]({ONE})\n{WORDS}\n\n[Two]({TWO})\n{OTHER}",
    "a list as Python prints it": str(
        [{"title": "One", "href": ONE, "body": WORDS}, {"title": "Two", "href": TWO, "body": OTHER}]
    ),
    "CrewAI Serper text": f"Search results: Title: One\nLink: {ONE}\nSnippet: {WORDS}\n---\nTitle: Two\nLink: {TWO}\n"
    f"Snippet: {OTHER}\n---",
    "a dash before the address": f"I found:\n1. One - {ONE}\n   {WORDS}\n2. Two - {TWO}\n   {OTHER}\n",
    "parentheses around the address": f"- One ({ONE})\n  {WORDS}\n- Two ({TWO})\n  {OTHER}\n",
    "MCP parts": {
        "content": [
            {"type": "text", "text": f"Title: One\nURL: {ONE}\nDescription: {WORDS}"},
            {"type": "text", "text": f"Title: Two\nURL: {TWO}\nDescription: {OTHER}"},
        ]
    },
    "arXiv's feed": '<feed xmlns="http://www.w3.org/2005/Atom"><title>Query</title>'
    + "".join(
        f'<entry><id>{url}</id><title>{title}</title><summary>{text}</summary><link href="{url}" rel="alternate"/></entry>'
        for title, url, text in (("One", ONE, WORDS), ("Two", TWO, OTHER))
    )
    + "</feed>",
    "OpenAI file search": {
        "object": "response",
        "output": [
            {
                "type": "file_search_call",
                "id": "fs_1",
                "status": "completed",
                "queries": ["bridge"],
                "results": [
                    {"file_id": "file-1", "filename": "One", "score": 0.9, "text": WORDS, "attributes": {}},
                    {"file_id": "file-2", "filename": "Two", "score": 0.7, "text": OTHER, "attributes": {}},
                ],
            }
        ],
    },
    "OpenAI vector store search": {
        "object": "vector_store.search_results.page",
        "search_query": ["bridge"],
        "data": [
            {"file_id": "f1", "filename": "One", "score": 0.9, "content": [{"type": "text", "text": WORDS}]},
            {"file_id": "f2", "filename": "Two", "score": 0.8, "content": [{"type": "text", "text": OTHER}]},
        ],
        "has_more": False,
        "next_page": None,
    },
    "Grok with previews": {
        "results": [{"title": "One", "url": ONE, "preview": WORDS}, {"title": "Two", "url": TWO, "preview": OTHER}]
    },
    "Perplexity chat": {
        "choices": [{"message": {"role": "assistant", "content": "Both tell of it."}}],
        "citations": [ONE, TWO],
        "search_results": [
            {"title": "One", "url": ONE, "snippet": WORDS, "date": None},
            {"title": "Two", "url": TWO, "snippet": OTHER, "date": None},
        ],
    },
    "Elasticsearch": {
        "took": 3,
        "hits": {
            "total": {"value": 2, "relation": "eq"},
            "hits": [
                {"_id": "1", "_score": 1.2, "_source": {"title": "One", "url": ONE, "content": WORDS}},
                {"_id": "2", "_score": 1.1, "_source": {"title": "Two", "url": TWO, "content": OTHER}},
            ],
        },
    },
    "Vertex AI Search": {
        "results": [
            {
                "id": "1",
                "document": {
                    "name": "projects/1/documents/1",
                    "derivedStructData": {"title": title, "link": url, "snippets": [{"snippet": text}]},
                },
            }
            for title, url, text in (("One", ONE, WORDS), ("Two", TWO, OTHER))
        ],
        "totalSize": 2,
    },
    "Bedrock knowledge base": {
        "retrievalResults": [
            {
                "content": {"type": "TEXT", "text": text},
                "location": {"type": "WEB", "webLocation": {"url": url}},
                "metadata": {"title": title},
                "score": 0.5,
            }
            for title, url, text in (("One", ONE, WORDS), ("Two", TWO, OTHER))
        ]
    },
    "Amazon Kendra": {
        "QueryId": "1",
        "ResultItems": [
            {
                "Id": "1",
                "Type": "DOCUMENT",
                "DocumentTitle": {"Text": title, "Highlights": []},
                "DocumentExcerpt": {"Text": text, "Highlights": []},
                "DocumentURI": url,
            }
            for title, url, text in (("One", ONE, WORDS), ("Two", TWO, OTHER))
        ],
        "TotalNumberOfResults": 2,
    },
    "Azure AI Search": {
        "@odata.count": 2,
        "value": [
            {"@search.score": 2.1, "title": "One", "url": ONE, "content": WORDS},
            {"@search.score": 1.1, "title": "Two", "url": TWO, "content": OTHER},
        ],
    },
    "Pinecone": {
        "namespace": "n",
        "matches": [
            {"id": "1", "score": 0.9, "metadata": {"title": "One", "url": ONE, "text": WORDS}},
            {"id": "2", "score": 0.8, "metadata": {"title": "Two", "url": TWO, "text": OTHER}},
        ],
    },
    "Crossref": {
        "status": "ok",
        "message-type": "work-list",
        "message": {
            "total-results": 2,
            "items": [
                {"title": ["One"], "URL": ONE, "abstract": f"<jats:p>{WORDS}</jats:p>", "DOI": "10.1/1"},
                {"title": ["Two"], "URL": TWO, "abstract": f"<jats:p>{OTHER}</jats:p>", "DOI": "10.1/2"},
            ],
        },
    },
    "Semantic Scholar": {
        "total": 2,
        "offset": 0,
        "data": [
            {"paperId": "1", "title": "One", "url": ONE, "abstract": WORDS, "year": 2026},
            {"paperId": "2", "title": "Two", "url": TWO, "abstract": OTHER, "year": 2025},
        ],
    },
    "Wikipedia": {
        "batchcomplete": "",
        "query": {
            "searchinfo": {"totalhits": 2},
            "search": [
                {"ns": 0, "title": "One", "pageid": 1, "snippet": f'<span class="searchmatch">The</span> {WORDS[4:]}'},
                {"ns": 0, "title": "Two", "pageid": 2, "snippet": OTHER},
            ],
        },
    },
    "Stack Exchange": {
        "items": [
            {"tags": ["a"], "link": ONE, "title": "One", "question_id": 1, "body": f"<p>{WORDS}</p>"},
            {"tags": ["b"], "link": TWO, "title": "Two", "question_id": 2, "body": f"<p>{OTHER}</p>"},
        ],
        "has_more": False,
        "quota_max": 300,
    },
    "GitHub": {
        "total_count": 2,
        "incomplete_results": False,
        "items": [
            {"id": 1, "full_name": "One", "html_url": ONE, "description": WORDS, "url": "https://api.github.com/1"},
            {"id": 2, "full_name": "Two", "html_url": TWO, "description": OTHER, "url": "https://api.github.com/2"},
        ],
    },
    "Reddit": {
        "kind": "Listing",
        "data": {
            "dist": 2,
            "children": [
                {"kind": "t3", "data": {"title": "One", "url": ONE, "selftext": WORDS, "subreddit": "a"}},
                {"kind": "t3", "data": {"title": "Two", "url": TWO, "selftext": OTHER, "subreddit": "b"}},
            ],
        },
    },
    "Hacker News": {
        "hits": [
            {"objectID": "1", "title": "One", "url": ONE, "story_text": WORDS, "points": 3},
            {"objectID": "2", "title": "Two", "url": TWO, "story_text": OTHER, "points": 2},
        ],
        "nbHits": 2,
        "query": "bridge",
    },
    "News API": {
        "status": "ok",
        "totalResults": 2,
        "articles": [
            {"source": {"id": None, "name": "A"}, "title": "One", "url": ONE, "description": WORDS},
            {"source": {"id": None, "name": "B"}, "title": "Two", "url": TWO, "description": OTHER},
        ],
    },
    "Kagi": {
        "meta": {"id": "1", "node": "us", "ms": 1},
        "data": [
            {"t": 0, "rank": 1, "url": ONE, "title": "One", "snippet": WORDS},
            {"t": 0, "rank": 2, "url": TWO, "title": "Two", "snippet": OTHER},
            {"t": 1, "list": ["a"]},
        ],
    },
    "Bright Data": {
        "general": {"search_engine": "google", "query": "bridge"},
        "organic": [
            {"link": ONE, "display_link": "a.example", "title": "One", "description": WORDS, "rank": 1},
            {"link": TWO, "display_link": "b.example", "title": "Two", "description": OTHER, "rank": 2},
        ],
    },
    "Serper news": {
        "searchParameters": {"q": "bridge", "type": "news"},
        "news": [
            {"title": "One", "link": ONE, "snippet": WORDS, "date": "2 days ago", "source": "A"},
            {"title": "Two", "link": TWO, "snippet": OTHER, "date": "3 days ago", "source": "B"},
        ],
    },
    "GLM web search": {
        "id": "1",
        "request_id": "2",
        "search_intent": [{"query": "bridge", "intent": "SEARCH_ALL", "keywords": "bridge"}],
        "search_result": [
            {"title": "One", "content": WORDS, "link": ONE, "media": "A", "icon": "https://i.example/a.png"},
            {"title": "Two", "content": OTHER, "link": TWO, "media": "B", "icon": "https://i.example/b.png"},
        ],
    },
    "names that nobody has used": {
        "payload": {
            "rows": [
                {"caption_of_page": 1, "page_link": url, "page_title": title, "blurb": text}
                for title, url, text in (("One", ONE, WORDS), ("Two", TWO, OTHER))
            ]
        }
    },
    "two lists of a provider that is not known": {
        "web": [{"title": "One", "url": ONE, "text": WORDS}],
        "papers": [{"title": "Two", "url": TWO, "text": OTHER}],
    },
    "a document for each line": "\n".join(
        f'{{"title": "{title}", "url": "{url}", "text": "{text}"}}'
        for title, url, text in (("One", ONE, WORDS), ("Two", TWO, OTHER))
    ),
    "two wrappers, one in the other": {
        "content": [
            {
                "type": "text",
                "text": '{"content": [{"type": "text", "text": "[{\\"title\\": \\"One\\", \\"url\\": \\"'
                + ONE
                + '\\", \\"text\\": \\"'
                + WORDS
                + '\\"}, {\\"title\\": \\"Two\\", \\"url\\": \\"'
                + TWO
                + '\\", \\"text\\": \\"'
                + OTHER
                + '\\"}]"}]}',
            }
        ],
        "isError": False,
    },
}
"""Two results each, with the titles One and Two, and WORDS and OTHER as texts."""

READ: Final[dict[str, tuple[Any, str]]] = {
    "xAI chat with citations": (
        {
            "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": WORDS}, "finish_reason": "stop"}],
            "citations": [ONE, TWO],
            "usage": {"num_sources_used": 2},
        },
        TWO,
    ),
    "OpenAI file search without its results": (
        {
            "output": [
                {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"], "results": None},
                {
                    "type": "message",
                    "content": [
                        {
                            "type": "output_text",
                            "text": WORDS,
                            "annotations": [{"type": "file_citation", "file_id": "f", "filename": "a.pdf"}],
                        }
                    ],
                },
            ]
        },
        WORDS,
    ),
    "DuckDuckGo's snippets alone": (f"{WORDS} ... {OTHER}", OTHER),
    "OpenSearch suggestions": (["bridge", ["One", "Two"], ["", ""], [ONE, TWO]], TWO),
    "an unknown object": ({"state": {"temperature": 21.5, "unit": "C"}, "place": "Ouessant"}, "Ouessant"),
    "a job that is not done": (
        {"success": True, "id": "fc-1", "url": "https://api.example/v1/crawl/fc-1"},
        "crawl/fc-1",
    ),
    "JSON that breaks off": ('{"results": [{"ti', '{"results": [{"ti'),
    "a number": (7, "7"),
    "results in a string": ({"results": "none of these are lists"}, "none of these are lists"),
    "a page": (f"<html><head><title>Bridges</title></head><body><p>{WORDS}</p></body></html>", "Bridges"),
    "places without addresses": (
        {"searchParameters": {"q": "cafe", "type": "places"}, "places": [{"title": "Cafe Zeppelin", "rating": 4.5}]},
        "Cafe Zeppelin",
    ),
    "a search engine's page": (
        f'<html><body><div class="result"><h2><a class="result__a" href="{ONE}">One</a></h2><a class="result__snippet">'
        f"{WORDS}</a></div></body></html>",
        WORDS,
    ),
}
"""Responses without a list of results, and what must not be lost of each."""

FAILED: Final[dict[str, tuple[Any, str]]] = {
    "tavily": ({"detail": {"error": "Unauthorized: missing or invalid API key."}}, "missing or invalid API key"),
    "serper": ({"message": "Not enough credits", "statusCode": 400}, "Not enough credits"),
    "serpapi": (
        {
            "search_metadata": {"id": "1", "status": "Error"},
            "search_parameters": {"q": "x"},
            "error": "Your account has run out of searches.",
        },
        "run out of searches",
    ),
    "brave": (
        {
            "type": "ErrorResponse",
            "error": {
                "id": "1",
                "status": 429,
                "code": "RATE_LIMITED",
                "detail": "Request rate limit exceeded for plan.",
            },
            "time": 1795082400,
        },
        "rate limit exceeded",
    ),
    "exa": ({"requestId": "1", "error": "Invalid API key", "tag": "INVALID_API_KEY"}, "Invalid API key"),
    "firecrawl": ({"success": False, "error": "Insufficient credits to perform this request."}, "Insufficient credits"),
    "jina": (
        {
            "data": None,
            "code": 402,
            "name": "InsufficientBalanceError",
            "status": 40203,
            "message": "Account balance not enough to run this query, please recharge.",
            "readableMessage": "InsufficientBalanceError: Account balance not enough to run this query.",
        },
        "balance not enough",
    ),
    "linkup": (
        {"statusCode": 401, "error": {"code": "UNAUTHORIZED", "message": "Invalid key.", "details": []}},
        "Invalid key",
    ),
    "bing": (
        {
            "_type": "ErrorResponse",
            "errors": [
                {
                    "code": "InvalidAuthorization",
                    "subCode": "AuthorizationMissing",
                    "message": "Authorization is required.",
                }
            ],
        },
        "Authorization is required",
    ),
    "google": (
        {
            "error": {
                "code": 429,
                "message": "Quota exceeded for quota metric 'Queries'.",
                "errors": [{"message": "Quota exceeded for quota metric 'Queries'.", "reason": "rateLimitExceeded"}],
                "status": "RESOURCE_EXHAUSTED",
            }
        },
        "Quota exceeded",
    ),
    "perplexity": (
        {"error": {"message": "Invalid API key provided.", "type": "invalid_api_key", "code": 401}},
        "Invalid API key provided",
    ),
    "you": ({"message": "Forbidden"}, "Forbidden"),
    "parallel": (
        {"type": "error", "error": {"ref_id": "r", "message": "Rate limit reached", "detail": None}},
        "Rate limit reached",
    ),
    "dataforseo": (
        {
            "status_code": 20000,
            "status_message": "Ok.",
            "tasks": [{"status_code": 40101, "status_message": "Internal SE Server Error.", "result": None}],
        },
        "Internal SE Server Error",
    ),
    "bocha": ({"code": "403", "message": "You do not have enough money", "log_id": "l"}, "enough money"),
    "kagi": (
        {"meta": {"id": "1"}, "data": None, "error": [{"code": 101, "msg": "Insufficient credit"}]},
        "Insufficient",
    ),
    "searxng": ({"results": [], "unresponsive_engines": [["google", "Suspended: CAPTCHA"]]}, "CAPTCHA"),
    "anthropic": (
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
        },
        "max_uses_exceeded",
    ),
    "openai": (
        {
            "object": "response",
            "status": "failed",
            "error": {"code": "server_error", "message": "It broke."},
            "output": [],
        },
        "It broke",
    ),
    "gemini": ({"candidates": [], "promptFeedback": {"blockReason": "SAFETY"}}, "SAFETY"),
    "a flag alone": ({"success": False}, "no reason is given"),
    "a gateway": ({"message": "Endpoint request timed out"}, "timed out"),
    "FastAPI": ({"detail": [{"loc": ["body", "query"], "msg": "field required", "type": "missing"}]}, "field required"),
    "JSON-RPC": (
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "upstream closed the connection"}},
        "upstream closed",
    ),
    "MCP": (
        {"content": [{"type": "text", "text": "The lantern could not be lit."}], "isError": True},
        "could not be lit",
    ),
    "a status in words": ("Error: 401 Unauthorized", "401 Unauthorized"),
    "ddgs": ("DuckDuckGoSearchException: https://html.duckduckgo.com/html 202 Ratelimit", "202 Ratelimit"),
    "requests": ("HTTPError('429 Client Error: Too Many Requests for url: https://api.example/')", "Too Many Requests"),
    "nginx": (
        "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>",
        "502 Bad Gateway",
    ),
    "SearXNG's limiter": ("Too Many Requests", "Too Many Requests"),
    "a captcha": (
        "<html><body><form><p>Please complete the CAPTCHA: unusual traffic was blocked.</p></form></body></html>",
        "CAPTCHA",
    ),
}
"""Failed searches, and the words of each that say why."""

NOTHING: Final[dict[str, Any]] = {
    "tavily": {"query": "x", "answer": None, "images": [], "results": [], "response_time": 0.4},
    "serper": {"searchParameters": {"q": "x", "type": "search"}, "organic": [], "credits": 1},
    "serpapi": {
        "search_metadata": {"status": "Success"},
        "search_parameters": {"q": "x"},
        "error": "Google hasn't returned any results for this query.",
    },
    "searxng": {"query": "x", "number_of_results": 0, "results": [], "answers": [], "unresponsive_engines": []},
    "an empty list": [],
    "words": "No results found for 'x'.",
    "words of LangChain": "No good DuckDuckGo Search Result was found",
    "Chinese words": "没有找到相关结果",
    "nothing at all": "",
    "nothing, in JSON": "null",
    "hits of Elasticsearch": {"took": 1, "hits": {"total": {"value": 0}, "max_score": None, "hits": []}},
}
"""Searches that found nothing."""
