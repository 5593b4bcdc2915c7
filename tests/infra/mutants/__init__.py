"""Breaks `infra/` in one place after the other, and names what no check sees: `make infra-mutants`."""
