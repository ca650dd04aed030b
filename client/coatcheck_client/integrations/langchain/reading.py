"""`read_artifact` as a LangChain tool: cards name it, and agents offer it to their models."""

from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from coatcheck_client import Client, declarations
from coatcheck_client.fallback import sentence


def read_tool(client: Client) -> BaseTool:
    """Returns `read_artifact`, executed by the service. Failures are results that say what to do next."""
    (declared,) = declarations("json-schema")

    def read_artifact(**arguments: Any) -> str:  # noqa: ANN401 - the schema names them; the service checks them
        call = {"name": declared["name"], "arguments": arguments}
        try:
            answer: dict[str, Any] = client.call(call, form="text")
            text, is_error = str(answer["text"]), bool(answer["is_error"])
        except Exception as e:  # another program at the URL may answer anything
            raise ToolException(sentence(e)) from e
        if is_error:
            raise ToolException(text)
        return text

    return StructuredTool(
        name=declared["name"],
        description=declared["description"],
        args_schema=declared["parameters"],
        func=read_artifact,
        handle_tool_error=True,
    )
