"""Configs that ship with the task."""
