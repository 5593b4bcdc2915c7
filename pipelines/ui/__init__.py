"""The pages of a workspace for people, read-only: every page is made of a document, which is beside it as `.json`."""

TOKEN = "NIGHTSHIFT_UI_TOKEN"  # noqa: S105 - the environment variable, no password
