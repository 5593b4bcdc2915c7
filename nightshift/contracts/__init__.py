"""Every JSON artifact as a typed model with a schema version."""
