"""Middleware for LangChain agents: `pip install "coatcheck-client[langchain]"`.

from langchain.agents import create_agent
from coatcheck_client.integrations.langchain import CoatcheckMiddleware

agent = create_agent(model, tools, middleware=[CoatcheckMiddleware()])
"""

from coatcheck_client.integrations.extras import NeededExtra

with NeededExtra("langchain"):
    from coatcheck_client.integrations.langchain.middleware import CoatcheckMiddleware

__all__ = ["CoatcheckMiddleware"]
