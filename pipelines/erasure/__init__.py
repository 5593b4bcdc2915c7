"""Erasure of one entity from every store of a use case, its proof and its record."""
