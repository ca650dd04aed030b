"""A host with the declared tool, as an agent's program has one: it hands over outputs and executes calls."""

import re
from dataclasses import dataclass
from typing import Any

import httpx

from coatcheck.adapters.tokenizer import load_tokenizer

TOKENIZER = load_tokenizer()
LOG = "".join(f"{n:05d} step {n * 7919 % 1000} took {n % 97} ms\n" for n in range(4000))
LAST = re.compile(r"\n\((?:Lines .*)\)\Z")


@dataclass(frozen=True)
class Answer:
    """What a call answered."""

    text: str
    tokens: int
    is_error: bool

    @property
    def first(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def body(self) -> str:
        """What stands between the first and the last line, rows of one line put together again."""
        return self.text.partition("\n")[2].rpartition("\n(")[0].replace("\n¦ ", "")

    @property
    def last(self) -> str:
        return "(" + self.text.rpartition("\n(")[2]

    @property
    def next(self) -> str | int | None:
        """The next offset, as a model copies it."""
        found = re.search(r'Next: offset=(?:"([0-9+]+)"|([0-9]+))\.', self.last)
        return None if found is None else found[1] or int(found[2])


@dataclass(frozen=True)
class Agent:
    """Talks to a service."""

    client: httpx.AsyncClient

    async def put(self, content: str | bytes, **fields: Any) -> str:  # noqa: ANN401 - JSON
        """Hand over a payload; its ID."""
        return (await self.receipt(content, **fields))["id"]

    async def receipt(self, content: str | bytes, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        if isinstance(content, bytes):
            headers = {"content-type": fields.pop("media_type", "application/octet-stream")}
            params = {"allow_empty": True, **fields}
            response = await self.client.post("/v1/artifacts/raw", params=params, headers=headers, content=content)
        else:
            response = await self.client.post("/v1/artifacts", json={"content": content, **fields})
        assert response.status_code in {200, 201}, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def send(self, body: object, **params: Any) -> Any:  # noqa: ANN401 - JSON
        """The JSON answer to a body with calls."""
        response = await self.client.post("/v1/tools/call", json=body, params=params)
        assert response.status_code == 200, response.text
        return response.json()

    async def read(self, **arguments: Any) -> Answer:  # noqa: ANN401 - JSON
        """Call `read_artifact`."""
        return await self.call("read_artifact", arguments)

    async def call(self, name: str, arguments: object, **params: Any) -> Answer:  # noqa: ANN401 - JSON
        got = Answer(**await self.send({"name": name, "arguments": arguments}, **params))
        assert got.tokens == TOKENIZER.count(got.text)
        return got
