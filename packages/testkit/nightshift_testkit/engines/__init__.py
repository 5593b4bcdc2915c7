"""Simulated engines of language models."""
