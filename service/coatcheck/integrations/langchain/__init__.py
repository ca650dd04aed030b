"""Middleware for LangChain agents: `pip install coatcheck[langchain]`.

from langchain.agents import create_agent
from coatcheck.integrations.langchain import CoatcheckMiddleware

agent = create_agent(model, tools, middleware=[CoatcheckMiddleware()])
"""

from coatcheck.integrations.langchain.middleware import CoatcheckMiddleware

__all__ = ["CoatcheckMiddleware"]
