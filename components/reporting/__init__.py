"""The last step of every run: reports what happened, to machines and to people.

Reads what the other steps wrote, as far as it is there, their measures in the executor input, and the local
engine's record `<runs>/<run>/run.json`. Writes `summary.json` (schema: `docs/reference/summary.md`) and the
self-contained `report.html`, both as artifacts and into `<runs>/<run>`, and an overview in Markdown for Kubeflow's
page; moves the link `<runs>/latest` to the newest run.
"""
