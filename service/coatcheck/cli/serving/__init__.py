"""What `coatcheck serve` needs around the service: workers, logs, notifications to a service manager."""
