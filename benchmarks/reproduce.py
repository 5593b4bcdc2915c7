"""The published comparison of models beside ours, on the four published test folds.

Every figure comes from the pipeline itself: its steps up to the evaluation are run for each fold.
"""

import json
import sys
from statistics import mean
from typing import Any

from benchmarks import figures
from benchmarks.steps import run_steps

# last days of the test weeks that begin on 2018-08-15, 08-08, 08-01 and 07-25 plus two weeks
FOLDS = ("2018-09-04", "2018-08-28", "2018-08-21", "2018-08-14")
STEPS = ("ingestion", "features", "training", "optimization", "evaluation")
TITLES = ("AUC", "AP", "CP@100")
METRICS = ("auc_roc", "average_precision", "precision_at_k")
# Le Borgne et al., Fraud Detection Handbook, chapter 5; means over the folds, random forest and XGBoost with the
# parameters of the configs handbook-prequential and handbook-best's yardstick
PUBLISHED = {
    "logistic_regression": (0.868, 0.623, 0.297),
    "random_forest": (0.870, 0.678, 0.299),
    "xgboost": (0.871, 0.694, 0.304),
    "mlp": (0.876, 0.675, 0.303),
}
WANTED = (0.875, 0.705, 0.306)


def main(data: str) -> None:
    """Run the folds and print the table."""
    published = [_evaluate("handbook-prequential", data, date) for date in FOLDS]
    best = [_evaluate("handbook-best", data, date) for date in FOLDS]
    rows = [(name, PUBLISHED[name], _means([fold["models"][name] for fold in published])) for name in PUBLISHED]
    rows.append(("handbook-best", WANTED, _means([fold["models"][fold["selected"]] for fold in best])))
    ceiling = mean(fold["models"]["xgboost"]["precision_at_k_ceiling"] for fold in published)
    lines = [
        {"model": name} | {title: f"{p:.3f} / {o:.3f}" for title, p, o in zip(TITLES, theirs, ours, strict=True)}
        for name, theirs, ours in rows
    ]
    note = f"Published / ours, means over {len(FOLDS)} test folds; handbook-best beside its goal."
    figures.publish("reproduced", lines, f"{note} Ceiling of CP@100: {ceiling:.3f}.")


def _evaluate(config: str, data: str, date: str) -> dict[str, Any]:
    """Run a config for a date up to the evaluation and return `evaluation.json`."""
    folder = run_steps(STEPS, config, data, date)
    value: dict[str, Any] = json.loads((folder / "evaluation/evaluation/evaluation.json").read_text())
    return value


def _means(metrics: list[dict[str, float]]) -> tuple[float, ...]:
    return tuple(mean(fold[name] for fold in metrics) for name in METRICS)


if __name__ == "__main__":
    main(sys.argv[1])
