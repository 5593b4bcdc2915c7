"""Families of language models, one file each."""
