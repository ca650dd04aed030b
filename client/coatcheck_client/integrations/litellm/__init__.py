"""LiteLLM's proxy: `pip install "coatcheck-client[litellm]"`.

from coatcheck_client.integrations.litellm import CoatcheckCallback

callback = CoatcheckCallback()  # in coatcheck_proxy.py; config.yaml beside it has `callbacks: coatcheck_proxy.callback`
"""

from coatcheck_client.integrations.extras import NeededExtra

with NeededExtra("litellm"):
    from coatcheck_client.integrations.litellm.callback import CoatcheckCallback

__all__ = ["CoatcheckCallback"]
