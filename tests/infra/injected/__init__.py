"""Faults that are injected into `infra/`, and which check sees each: `make infra-faults`."""
