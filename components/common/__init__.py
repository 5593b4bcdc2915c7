"""What every component shares: configuration, storage, artifacts, dates and metrics."""
