"""Text views made apart from this process: workers with limits, and what to do when there is none to be had."""
