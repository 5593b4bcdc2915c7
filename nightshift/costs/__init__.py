"""What machines cost, and what a run may spend."""
