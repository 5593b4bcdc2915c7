"""Rows of a table whose label is one class of several: a queue, a category, a priority."""
