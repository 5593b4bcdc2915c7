"""What images and texts share: one class of several for each."""
