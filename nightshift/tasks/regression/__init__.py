"""Rows of a table whose label is a number: a demand, a fare, a delay."""
