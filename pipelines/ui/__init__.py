"""The pages of a workspace for people, read-only: every page is made of a document, which is beside it as `.json`."""
