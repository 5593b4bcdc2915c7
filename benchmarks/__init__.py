"""Measurements: each prints ratios side by side from one run. `make bench` runs them."""
