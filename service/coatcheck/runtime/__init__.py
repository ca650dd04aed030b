"""How work runs: threads, turns of the loop, limits, circuit breakers, caches. Knows nothing of payloads."""
