"""The ports' implementations. Adapters know the ports and the core, nothing else."""
