"""Texts: which class each is of."""
