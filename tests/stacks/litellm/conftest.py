"""What stands beside the tests can be imported, and LiteLLM fetches nothing when it is."""

import os
import sys
from pathlib import Path

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
sys.path.insert(0, str(Path(__file__).parent))
