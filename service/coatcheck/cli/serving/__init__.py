"""What `coatcheck serve` adds to the service: worker processes, the log, notifications to a service manager."""
