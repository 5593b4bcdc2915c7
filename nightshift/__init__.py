"""The library under the steps."""
