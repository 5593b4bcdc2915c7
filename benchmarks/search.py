"""Walk-forward search of the parameters of the config `handbook-best`, on the published validation folds only.

Optuna keeps its trials in `runs/search.db`, so that the search resumes where it stopped; a trial that is worse
than the median after a fold is pruned. The table of trials is committed as `benchmarks/search.csv`.
"""

import sys
from datetime import date, timedelta
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import optuna
import pandas as pd
import yaml
from rich.console import Console

from benchmarks.steps import run_steps
from nightshift.config import Config, parse
from nightshift.contracts.preprocessing import Inputs
from nightshift.contracts.tables import read_table
from nightshift.data.splits import Days, plan, rows_of
from nightshift.stats import ranking as metrics
from nightshift.tabular.inputs import matrix
from nightshift.tasks.fitting import FitSpec
from nightshift.tasks.tabular import compromise, estimators
from nightshift.tasks.tabular.features.core import numeric_inputs
from pipelines import configs

LAST = date(2018, 7, 31)  # last day of the newest validation fold's test week
FOLDS = [LAST - timedelta(days=7 * back) for back in range(4)]
LONGEST = 49  # training days: the oldest fold's first windows then begin with the data
WINDOWS = {"three": ["1d", "7d", "30d"], "five": ["1d", "3d", "7d", "14d", "30d"]}
TRIALS = 16
FOLDER = Path("runs")
TABLE = Path("benchmarks/search.csv")


def main(data: str) -> None:
    """Search, and write the table of trials."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    shipped = configs.load("handbook")
    config = shipped | {"name": "handbook-search", "features": [{"preset": "payments", "windows": WINDOWS["five"]}]}
    rows = _rows(config, data)
    study = optuna.create_study(
        study_name="handbook-best",
        storage=f"sqlite:///{FOLDER}/search.db",
        load_if_exists=True,
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=0, multivariate=True),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=6),
    )
    console = Console()
    left = TRIALS - len([trial for trial in study.trials if trial.state.is_finished()])
    study.optimize(lambda trial: _objective(trial, config, rows), n_trials=max(left, 0), callbacks=[_teller(console)])
    table = study.trials_dataframe(("number", "state", "value", "params", "user_attrs"))
    # a trial in progress when the search was stopped has no result
    table[table["state"] != "RUNNING"].to_csv(TABLE, index=False)
    console.print(f"best: {study.best_value:.4f} with {study.best_params}; wrote {TABLE}")


def _objective(trial: optuna.Trial, config: dict[str, Any], rows: pd.DataFrame) -> float:
    """Return the mean average precision over the folds."""
    train_days = trial.suggest_int("train_days", 7, LONGEST, step=7)
    windows = WINDOWS[trial.suggest_categorical("windows", list(WINDOWS))]
    protocol = {"mode": "retrospective", "train_days": train_days, "compromised_days": 7}
    trial_config = parse(config | {"protocol": protocol, "features": [{"preset": "payments", "windows": windows}]})
    parameters = {
        "n_estimators": trial.suggest_int("n_estimators", 100, 400, step=50),
        "learning_rate": trial.suggest_float("learning_rate", 0.02, 0.2, log=True),
        "max_depth": trial.suggest_int("max_depth", 3, 7),
        "min_child_weight": trial.suggest_float("min_child_weight", 1, 20, log=True),
        "subsample": trial.suggest_float("subsample", 0.6, 1.0, step=0.1),
        "colsample_bytree": trial.suggest_float("colsample_bytree", 0.3, 1.0, step=0.1),
        "tree_method": "hist",
        "max_bin": 1024,
        "base_score": 0.5,
    }
    measured = []
    for number, last in enumerate(FOLDS):
        measured.append(_measure(trial_config, parameters, last, rows))
        trial.report(mean(fold["average_precision"] or 0.0 for fold in measured), number)
        if trial.should_prune():
            raise optuna.TrialPruned
    trial.set_user_attr("precision_at_k", mean(fold["precision_at_k"] for fold in measured))
    trial.set_user_attr("auc_roc", mean(fold["auc_roc"] or 0.0 for fold in measured))
    return mean(fold["average_precision"] or 0.0 for fold in measured)


def _measure(config: Config, parameters: dict[str, Any], last: date, rows: pd.DataFrame) -> metrics.RankingMetrics:
    fold = plan(config, last).test
    seen, unseen = rows_of(rows, fold.train), compromise.test_rows(rows, fold, config.protocol)
    inputs = Inputs(numeric=numeric_inputs(config), categorical={})
    job = FitSpec("search", parameters, config.task.seed, config.task.threads, "cpu")
    fitted = estimators.fit("xgboost", job, matrix(inputs, seen), seen["label"].to_numpy(dtype=np.int8))
    return metrics.evaluate(unseen, fitted.predict(matrix(inputs, unseen)), config.evaluation.top_k)


def _rows(config: dict[str, Any], data: str) -> pd.DataFrame:
    """Make the features of all days the folds need, by the pipeline's own steps."""
    # one week more than the longest training covers the folds that begin up to three weeks earlier
    wide = config | {"protocol": {"mode": "retrospective", "train_days": LONGEST + 7}}
    path = FOLDER / "search.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(wide))
    folder = run_steps(("ingestion", "features"), str(path), data, str(LAST))
    days = plan(parse(wide), LAST).features
    return read_table(str(folder / "features/features")).read(Days(days.first, LAST))


def _teller(console: Console) -> Any:
    def tell(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        value = f"{trial.value:.4f}" if trial.state == optuna.trial.TrialState.COMPLETE else "pruned"
        console.print(f"trial {trial.number}: {value} (best {study.best_value:.4f})", highlight=False)

    return tell


if __name__ == "__main__":
    main(sys.argv[1])
