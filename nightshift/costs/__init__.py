"""Prices of machines, and the budget of a run."""
