"""The artifacts of language models as typed models with a schema version."""
