"""How work runs: threads, turns of the event loop, limits, circuit breakers. Nothing here depends on payloads."""
