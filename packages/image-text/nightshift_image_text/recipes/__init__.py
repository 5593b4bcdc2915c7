"""Families of networks over images and texts, one file each."""
