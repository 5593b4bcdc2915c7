"""All that is planned, rendered and installed, in files that a person reads when they change."""
