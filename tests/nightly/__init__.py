"""Tests of minutes to hours, each a command: `make nightly` runs them; their figures are in docs/figures.json."""
