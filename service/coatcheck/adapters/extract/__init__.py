"""Text views made outside this process: workers with limits, and fallbacks if none is available."""
