"""How work runs: threads, turns of the event loop, limits, circuit breakers, caches. Knows nothing about payloads."""
