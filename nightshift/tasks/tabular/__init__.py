"""Rows of a table: is an event a positive one."""
