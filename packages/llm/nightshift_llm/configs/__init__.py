"""Use cases of language models, one YAML file each."""
