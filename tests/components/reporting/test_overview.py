"""The overview in Markdown that Kubeflow's page shows."""


def test_the_overview_tells_the_verdicts_the_models_and_the_steps(sample):
    summary, _ = sample.report()

    text = sample.file("overview").read_text()
    assert text.startswith(f"# {sample.run}: succeeded\n")
    for name, verdict in (("Evaluation", "evaluation"), ("Deployment", "deployment")):
        assert f"- {name}: **{summary['verdicts'][verdict]['decision']}**." in text
    selected = summary["selected"]
    precision = summary["models"][selected]["average_precision"]
    assert f"| **{selected}** |" in text
    assert f"| {precision:.3f} |" in text
    for name, step in summary["steps"].items():
        assert f"| {name} | {step['state']} |" in text


def test_after_a_failure_the_overview_says_what_was_not_reached(sample):
    for name in ("evaluation/evaluation.json", "evaluation/verdict.json", "drift/verdict.json", "deployment"):
        sample.file(name).unlink()

    sample.report()

    text = sample.file("overview").read_text()
    assert text.startswith(f"# {sample.run}: failed\n")
    assert "None was reached." in text
    assert "None was measured." in text
    assert "| evaluation | skipped | " in text
