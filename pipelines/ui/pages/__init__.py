"""A file a page: `read` makes its document from a workspace, `show` makes the page from its document alone."""

from nightshift import entry_points
from pipelines.ui.pages import audit_log, compare, costs, data, drift, events, home, models, releases, runs
from pipelines.ui.screen import WebPage

PAGES = (
    WebPage("/home", home.read, home.show, "Home"),
    WebPage("/runs", runs.read_list, runs.show_list, "Runs"),
    WebPage("/unfinished", runs.read_unfinished, runs.show_unfinished),
    WebPage("/use-cases/{name}", runs.read_use_case, runs.show_use_case),
    WebPage("/runs/{run}", runs.read_progress, runs.show_progress),
    WebPage("/runs/{run}/report", runs.read_report, runs.show_report),
    WebPage("/models", models.read_list, models.show_list, "Models"),
    WebPage("/models/{name}", models.read_history, models.show_history),
    WebPage("/models/{name}/{version}", models.read_version, models.show_version),
    WebPage("/actions/{name}", audit_log.read, audit_log.show),
    WebPage("/releases/{name}", releases.read, releases.show),
    WebPage("/drift/{name}", drift.read, drift.show),
    WebPage("/costs", costs.read, costs.show, "Costs"),
    WebPage("/data/{name}", data.read, data.show),
    WebPage("/data/{name}/{day}", data.read_quarantine, data.show_quarantine),
    WebPage("/events/{name}", events.read, events.show),
    WebPage("/events/{name}/{day}/{event}", events.read_event, events.show_event),
    WebPage("/compare/runs", compare.read_runs, compare.show_runs),
    WebPage("/compare/versions/{name}", compare.read_versions, compare.show_versions),
)


def list_pages() -> list[WebPage]:
    """Return the pages, with those of installed packages."""
    return [*PAGES, *(point.load() for point in entry_points.find(entry_points.PAGES).values())]
