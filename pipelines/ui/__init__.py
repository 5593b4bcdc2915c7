"""The pages of a workspace for people: every page is made of a document, which is beside it as `.json`.

The pages read. What a person may do, where the server was started with `--allow`, is in `actions.py`.
"""

TOKEN = "NIGHTSHIFT_UI_TOKEN"  # noqa: S105 - the environment variable, no password
