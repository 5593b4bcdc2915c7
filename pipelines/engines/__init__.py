"""One room per engine: each reads the same compiled YAML."""
