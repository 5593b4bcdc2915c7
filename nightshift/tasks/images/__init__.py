"""Images: which class each is of."""
