"""The pipelines, their configs, and the small interpreters that run them."""
