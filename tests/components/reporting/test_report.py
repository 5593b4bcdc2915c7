import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

SPELL = "<script>alert('&\"')</script>"
FILES = [
    "events",
    "features",
    "model/model.json",
    "profile/profile.json",
    "evaluation/evaluation.json",
    "evaluation/verdict.json",
    "scores/scores.json",
    "drift/drift.json",
    "drift/verdict.json",
    "deployment",
]
STEPS = ["ingestion", "features", "training", "profiling", *["evaluation"] * 2, "scoring", *["drift"] * 2, "deployment"]
VOID = {"meta", "br"}


class Page(HTMLParser):
    """What a browser makes of the page: elements, the rows of its tables, its text and its exact figures."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.text = ""
        self.style = ""
        self.figures: list[list[str]] = []  # exact, shown
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "data":
            self.figures.append([dict(attrs)["value"], ""])

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if "style" in self.open:
            self.style += data
            return
        self.text += f"{data} "
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] = f"{self.rows[-1][-1]} {data.strip()}".strip()
        if "data" in self.open:
            self.figures[-1][1] += data

    def row(self, first: str) -> list[str]:
        """The first table row that begins with a text."""
        return next(row for row in self.rows if row and row[0].startswith(first))


def texts(page: Page) -> str:
    return " ".join(page.text.split())


def test_the_page_needs_nothing_from_outside(sample):
    page = Page(sample.report()[1])
    for tag, attributes in page.elements:
        assert tag not in {"script", "link", "iframe", "img", "object", "embed", "base", "form"}
        assert not [name for name in attributes if name.startswith("on") or name in {"src", "srcset", "style"}]
        href = attributes.get("href") or ""
        assert not href.startswith("/")
        assert ":" not in href
    assert "url(" not in page.style
    assert "@import" not in page.style


def test_the_page_is_well_formed_and_small(sample):
    html = sample.report()[1]
    assert Page(html).open == []
    assert html.startswith("<!doctype html>")
    assert len(html.encode()) < 1_500_000


def test_every_link_leads_to_a_file_below_the_run(sample):
    page = Page(sample.report()[1])
    links = [unquote(attributes["href"]) for tag, attributes in page.elements if tag == "a"]
    assert "quarantine: day #41.parquet" in links
    assert "drift/drift/evidently.html" in links
    assert [link for link in links if not (sample.folder / link).is_file()] == []
    assert not [attributes["href"] for tag, attributes in page.elements if tag == "a" and "#" in attributes["href"]]


def test_what_lies_elsewhere_is_named_but_not_linked(sample, new_run, tmp_path):
    other = new_run(tmp_path / "elsewhere", "r1")
    sample.flags["model"] = other.flags["model"]
    page = Page(sample.report()[1])
    assert page.row("model")[1] == str(other.file("model/model.json"))
    assert not [a for _, a in page.elements if "elsewhere" in (a.get("href") or "")]


def test_the_figures_shown_are_those_of_the_summary(sample):
    summary, html = sample.report()
    page = Page(html)
    for name, scores in summary["models"].items():
        shown = page.row(name)
        assert [cell[:5] for cell in shown[1:5]] == [f"{scores[score]:.3f}" for score in list(scores)]
    assert page.row("train")[2:4] == ["67,240", "598"]
    assert page.row("test")[2:4] == ["58,264", "385"]
    assert page.row("negative amount")[1] == "12"
    exact = {float(value) for value, _ in page.figures}
    numbers = [*summary["models"]["mlp"].values(), *(v for v in summary["rows"].values() if isinstance(v, int))]
    steps = [step[key] for step in summary["steps"].values() for key in ("seconds", "cpu_seconds", "peak_memory_bytes")]
    assert exact >= {
        *numbers,
        *steps,
        summary["profile"]["rows_per_second"],
        summary["verdicts"]["drift"]["drifted_share"],
    }


def test_the_intervals_stand_beside_the_figures_of_the_selected_model_alone(sample):
    page = Page(sample.report()[1])
    shown = texts(page).replace("( ", "(").replace(" )", ")").replace(" \N{EN DASH} ", "\N{EN DASH}")
    for heading in ("", "Average precision "):
        assert f"{heading}0.658 (0.61\N{EN DASH}0.70)" in shown
    assert "Precision at 100 0.287 (0.25\N{EN DASH}0.32)" in shown
    assert "Cost per 1,000 events 541.7 (391\N{EN DASH}703) 412 flagged, 131 missed" in shown
    assert shown.count("(0.61") == 2
    assert not [cell for cell in page.row("mlp") if "(" in cell]


def test_without_intervals_the_figures_stand_alone(sample):
    sample.change("evaluation/evaluation.json", intervals={}, cost=None)
    page = Page(sample.report()[1])
    assert page.row("random_forest")[1:5] == ["0.867", "0.658", "0.287", "0.397"]
    assert "95 % intervals" not in texts(page)
    assert "Cost per" not in texts(page)


def test_the_selected_model_and_the_champion_stand_out(sample):
    page = Page(sample.report()[1])
    assert page.row("random_forest")[0] == "random_forest selected"
    assert page.row("champion version 2")[1:5] == ["0.858", "0.635", "0.269", "0.397"]


@pytest.mark.parametrize(
    ("decision", "title"),
    [
        ("promoted", "Version 3 promoted"),
        ("kept", "Champion version 2 kept"),
        ("registered", "Version 3 registered, not promoted"),
    ],
)
def test_the_headline_says_what_was_deployed_and_why(sample, decision, title):
    sample.change("deployment", decision=decision, champion_version=2, reasons=["The moon was full."])
    html = sample.report()[1]
    assert f"<h1>{title}</h1>" in html
    assert "The moon was full." in html.split("<h1>")[1].split("</header>")[0]


@pytest.mark.parametrize(("file", "step"), list(zip(FILES, STEPS, strict=True)))
def test_a_report_is_made_without(sample, file, step):
    sample.file(file).unlink()
    summary, html = sample.report()
    through = file in ("evaluation/evaluation.json", "drift/drift.json")  # the verdict is there
    assert summary["status"] == ("succeeded" if through else "failed")
    assert summary["steps"][step]["state"] == ("done" if through else "skipped")
    assert ("The run is incomplete" in html) is not through
    assert Page(html).open == []


def test_a_report_is_made_of_nothing_but_the_flags(sample):
    for file in FILES:
        sample.file(file).unlink()
    (sample.folder / "run.json").unlink()
    sample.executor_input.clear()
    summary, html = sample.report()
    assert summary["status"] == "failed"
    assert {step["state"] for step in summary["steps"].values()} == {"skipped"}
    assert "No result of ingestion, features, training" in html


def test_a_failed_step_is_named_with_its_error_and_log(sample):
    for file in FILES[2:]:
        sample.file(file).unlink()
    record = json.loads((sample.folder / "run.json").read_text())
    steps = {name: record["steps"][name] for name in ("ingestion", "features", "training")}
    steps["training"] |= {"state": "failed", "error": "the training days hold no fraud; choose another date"}
    sample.change("run.json", steps=steps)
    summary, html = sample.report()
    page = Page(html)
    assert "<h1>The run failed in training</h1>" in html
    assert "Step training failed the training days hold no fraud; choose another date" in texts(page)
    assert "No result of profiling, evaluation, scoring, drift, deployment." in texts(page)
    assert ("a", {"href": "training/log.txt"}) in page.elements
    assert page.row("training")[1] == "failed"
    assert summary["steps"]["training"]["error"] == "the training days hold no fraud; choose another date"
    assert summary["rows"]["read"] == 690_135


def test_missing_measures_are_said_to_be_missing(sample):
    _, complete = sample.report()
    sample.executor_input.clear()
    _, bare = sample.report()
    assert "No measures of" not in complete
    assert f"No measures of {', '.join(dict.fromkeys(STEPS))} came" in bare


def test_what_the_engine_ignored_is_listed(sample):
    assert "What this engine ignored training: accelerator profiling: accelerator" in texts(Page(sample.report()[1]))


def test_without_a_champion_the_report_says_so(sample):
    sample.change("evaluation/evaluation.json", champion=None)
    html = sample.report()[1]
    assert "There was no champion to compare with." in html
    assert "champion version 2</th>" not in html


def test_a_metric_without_a_meaning_is_a_dash(sample):
    evaluation = json.loads(sample.file("evaluation/evaluation.json").read_text())
    evaluation["models"]["mlp"] |= {"auc_roc": None, "average_precision": None}
    sample.change("evaluation/evaluation.json", models=evaluation["models"])
    summary, html = sample.report()
    assert summary["models"]["mlp"]["auc_roc"] is None
    assert Page(html).row("mlp")[1:3] == ["\N{EN DASH}", "\N{EN DASH}"]


def test_drifted_inputs_come_in_order_of_their_effect(sample):
    page = Page(sample.report()[1])
    columns = json.loads(sample.file("drift/drift.json").read_text())["columns"]
    order = sorted(columns, key=lambda c: -max(c["psi"] / 0.2, (c["wasserstein"] or 0) / 0.2))
    names = {column["name"] for column in columns}
    shown = [row for row in page.rows if row and row[0] in names and len(row) == 8]
    assert [row[0] for row in shown] == [column["name"] for column in order]
    assert shown[0][-1] == "drifted"
    assert shown[0][1] == "0.312"


def test_whatever_a_text_holds_is_shown_and_never_run(sample):
    """Every place where users, libraries or logs may put text."""
    evaluation = json.loads(sample.file("evaluation/evaluation.json").read_text())
    drift = json.loads(sample.file("drift/drift.json").read_text())
    drift["columns"][0]["name"] = SPELL
    config = json.loads(sample.flags["config"])
    config["columns"]["numeric"] = [SPELL]
    sample.flags.update(data=SPELL, config=json.dumps(config))
    sample.change("evaluation/evaluation.json", models={SPELL: evaluation["models"]["mlp"]}, selected=SPELL)
    sample.change("model/model.json", selected=SPELL)
    sample.change("drift/drift.json", columns=drift["columns"])
    sample.change("drift/verdict.json", reasons=[SPELL])
    sample.change("deployment", reasons=[SPELL, "and"], endpoint=SPELL, curl=SPELL)
    sample.change("profile/profile.json", diagnosis=SPELL, top_operations=[])
    sample.change("events", details={"read": 5, "quarantined": {SPELL: 1}})
    sample.change("run.json", ignored=[SPELL], engine=SPELL, pipeline=SPELL)
    html = sample.report()[1]
    assert "<script" not in html
    assert not [tag for tag, _ in Page(html).elements if tag == "script"]
    assert Page(html).text.count(SPELL) >= 12


def test_an_error_with_markup_is_shown_as_text(sample):
    record = json.loads((sample.folder / "run.json").read_text())
    record["steps"]["drift"] |= {"state": "failed", "error": SPELL}
    sample.change("run.json", steps=record["steps"])
    html = sample.report()[1]
    assert "<script" not in html
    assert SPELL in Page(html).text


def test_the_page_has_both_plots(sample):
    page = Page(sample.report()[1])
    labels = [attributes["aria-label"] for tag, attributes in page.elements if attributes.get("role") == "img"]
    assert labels == [
        "Precision over recall: precision over recall",
        "Calibration: observed share of positives over predicted probability",
    ]
    curves = [attributes["d"] for tag, attributes in page.elements if attributes.get("class") == "curve"]
    assert all(re.fullmatch(r"M[\d.]+,[\d.]+(L[\d.]+,[\d.]+)+", path) for path in curves)


def test_what_is_unusual_about_the_rows_is_said(sample):
    assert "To know of these figures" not in sample.report()[1]
    sample.change("evaluation/evaluation.json", notes=["Land: 3 of 4 test rows are new."])
    assert "<li>Land: 3 of 4 test rows are new.</li>" in sample.report()[1]


def test_a_use_case_without_customers_is_told_of_events(sample):
    columns = {"event_id": "id", "event_time": "at", "label": "sold"}
    config = json.loads(sample.flags["config"])
    config |= {"columns": columns, "task": config["task"] | {"windows_days": []}}
    sample.flags["config"] = json.dumps(config)
    assert "among the 100 events with the highest scores of a day" in sample.report()[1]
