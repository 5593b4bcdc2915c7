"""Retention and garbage collection."""
