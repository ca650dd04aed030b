"""What `coatcheck serve` needs around the service: workers, logs, signs to a service manager."""
