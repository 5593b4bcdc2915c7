"""Convert a language model to GGUF, quantize it, judge the result, evaluate a served one, compare gateway traffic."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from nightshift import storage
from nightshift.contracts.verdict import FILE as VERDICT
from nightshift.contracts.verdict import Decision, Verdict
from nightshift.data.dates import parse_date
from nightshift.runtime.errors import UserError, require_extra
from nightshift.runtime.step import USER_ERROR
from nightshift_llm import DISTRIBUTION
from nightshift_llm.contracts.suite import FILE as SUITE
from nightshift_llm.contracts.suite import SuiteScores
from pipelines import arguments
from pipelines.cli import options

EXTRA = "engine"
WEIGHTS = ("F16", "BF16", "F32")
DOCUMENTS = "text file, one text per line, that the model was not trained on"


def add(commands: options.Commands, _: Sequence[str]) -> None:
    """Add the command with its actions."""
    actions = options.add_command(commands, "llm", __doc__).add_subparsers(required=True, metavar="action")
    command = options.add_command(actions, "convert", convert.__doc__)
    command.add_argument("folder", type=Path, help="folder with config.json, safetensors and tokenizer.json of a Llama")
    command.add_argument("file", type=Path, help="GGUF file to write")
    command.add_argument(
        "--weights", default="F16", choices=WEIGHTS, help="data type of the weight matrices (default: %(default)s)"
    )
    command.set_defaults(command=convert)
    command = options.add_command(actions, "quantize", quantize.__doc__)
    command.add_argument("original", type=Path, help="GGUF file to quantize, in F16, BF16 or F32")
    command.add_argument("file", type=Path, help="GGUF file to write")
    command.add_argument(
        "--form", default="Q4_K_M", help="quantization of llama.cpp, such as Q8_0 (default: %(default)s)"
    )
    command.set_defaults(command=quantize)
    _add_judge(options.add_command(actions, "judge", judge.__doc__))
    command = options.add_command(actions, "suite", suite.__doc__)
    command.add_argument("documents", type=Path, help=DOCUMENTS)
    command.add_argument("folder", help="folder or URI to write the suite to; lm-evaluation-harness can run it too")
    command.add_argument("--items", type=int, default=200, help="maximum items per task (default: %(default)s)")
    command.set_defaults(command=suite)
    _add_evaluate(options.add_command(actions, "evaluate", evaluate.__doc__))
    command = options.add_command(actions, "drift", drift.__doc__)
    command.add_argument("log", help="folder of request logs, as in the gateway's --log")
    command.add_argument(
        "--date", default=arguments.yesterday(), help="UTC day to check, YYYY-MM-DD (default: yesterday)"
    )
    command.add_argument(
        "--days", type=int, default=7, help="number of preceding days to compare with (default: %(default)s)"
    )
    options.add_json(command, "verdict")
    command.set_defaults(command=drift)


def _add_judge(command: argparse.ArgumentParser) -> None:
    command.add_argument("original", type=Path, help="GGUF file of the original")
    command.add_argument("quantized", type=Path, help="GGUF file of the quantized model")
    command.add_argument("--documents", type=Path, required=True, help=DOCUMENTS)
    command.add_argument(
        "--output",
        required=True,
        help="folder or URI to write the verdict and the likelihoods to; existing likelihoods are reused",
    )
    command.add_argument(
        "--context", type=int, default=512, help="context length of both models in tokens (default: %(default)s)"
    )
    command.add_argument("--threads", type=int, default=2, help="number of CPU threads (default: %(default)s)")
    options.add_json(command, "verdict")
    command.set_defaults(command=judge)


def _add_evaluate(command: argparse.ArgumentParser) -> None:
    command.add_argument("url", help="URL of the engine or gateway, such as http://127.0.0.1:8080")
    command.add_argument("--suite", required=True, help="folder or URI of a suite from `nightshift llm suite`")
    command.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json of the model")
    command.add_argument("--output", required=True, help="folder or URI to write the scores and the verdict to")
    command.add_argument("--champion", help="folder or URI with the scores of the model to compare with")
    command.add_argument("--model", help="model name in requests (default: the first that the server lists)")
    command.add_argument("--token-file", help="file with the bearer token or API key to send")
    options.add_json(command, "suite", "verdict")
    command.set_defaults(command=evaluate, endpoint="completions")


def convert(args: argparse.Namespace) -> int:
    """Convert the folder of a Llama to a GGUF file."""
    with require_extra("nightshift llm convert", EXTRA, DISTRIBUTION):
        from nightshift_llm import gguf

    gguf.convert(args.folder, args.file, args.weights)
    return options.say(f"{args.file}: {args.file.stat().st_size / 1e6:,.1f} MB")


def quantize(args: argparse.Namespace) -> int:
    """Write a quantized copy of a model."""
    with require_extra("nightshift llm quantize", EXTRA, DISTRIBUTION):
        from nightshift_llm import quantization

    quantization.quantize(args.original, args.file, args.form)
    share = args.file.stat().st_size / args.original.stat().st_size
    return options.say(f"{args.file}: {args.file.stat().st_size / 1e6:,.1f} MB, {share:.0%} of the original")


def judge(args: argparse.Namespace) -> int:
    """Compare a quantized model with its original, and exit with code 2 if it loses too much."""
    with require_extra("nightshift llm judge", EXTRA, DISTRIBUTION):
        from nightshift_llm import gate
        from nightshift_llm.llamacpp import ContextOptions

    if args.context < 2 or args.threads < 1:
        raise UserError(f"--context is {args.context} and --threads {args.threads}; give 2 or more and 1 or more")
    documents, context = _read_documents(args.documents), ContextOptions(args.context, args.threads)
    verdict = gate.compare_models(args.original, args.quantized, documents, args.output, context)
    return _show_verdict(args, verdict)


def suite(args: argparse.Namespace) -> int:
    """Build a task suite from texts that a model was not trained on."""
    from nightshift_llm.suite import harness, items

    if args.items < items.CHOICES:
        raise UserError(f"--items is {args.items}; give at least {items.CHOICES}, the number of choices per item")
    tasks = items.build_suite(_read_documents(args.documents), args.items)
    harness.write_suite(args.folder, tasks)
    return options.say(f"{args.folder}: {len(tasks[items.CHOICE])} items for each of {', '.join(tasks)}")


def evaluate(args: argparse.Namespace) -> int:
    """Score a served model on a task suite; exit with code 2 if it is worse than the champion."""
    from nightshift_llm import loadtest
    from nightshift_llm.suite import comparison, endpoint, harness, scores

    tasks, tokenizer = harness.read_suite(args.suite), endpoint.load_tokenizer(args.tokenizer)
    champion = SuiteScores.read(storage.join(args.champion, SUITE)) if args.champion else None
    target = loadtest.read_target(args)
    served = endpoint.CompletionEndpoint(target, args.model or loadtest.ask_model(target))
    challenger = scores.score_suite(served, tokenizer, tasks)
    challenger.write(storage.join(args.output, SUITE))
    if champion is None:
        return options.print_document(challenger) if args.json else _show_scores(challenger)
    subject = storage.fingerprint(challenger.model_dump(mode="json"))
    judged = comparison.compare_scores(challenger, champion, subject)
    judged.write(storage.join(args.output, VERDICT))
    return _show_verdict(args, judged)


def drift(args: argparse.Namespace) -> int:
    """Compare a day's requests at the gateway with the days before; exit with code 2 on drift."""
    from nightshift_llm import traffic

    if args.days < 1:
        raise UserError(f"--days is {args.days}; give at least 1")
    return _show_verdict(args, traffic.compare_days(args.log, parse_date(args.date), args.days))


def _read_documents(path: Path) -> list[str]:
    """Read texts, one per line.

    Raises:
        UserError: when it is no file, or a line is not UTF-8.
    """
    if not path.is_file():
        raise UserError(f"documents {path} is not a file; give a file with one text per line")
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        fix = f"iconv -f latin1 -t utf-8 {shlex.quote(str(path))} > utf8.txt"
        raise UserError(
            f"documents {path}, line {line} is not UTF-8; convert the file, with its own encoding: {fix}"
        ) from None
    # only line feeds: a text may hold what else Unicode takes for the end of a line
    return [line for line in text.split("\n") if line.strip()]


def _show_scores(scores: SuiteScores) -> int:
    for metric in scores.metrics:
        low, high = metric.interval
        options.say(f"{metric.name:<24} {metric.value:.3f} [{low:.3f}, {high:.3f}]  {len(metric.items)} items")
    return 0


def _show_verdict(args: argparse.Namespace, verdict: Verdict) -> int:
    code = USER_ERROR if verdict.decision is Decision.FAIL else 0
    if args.json:
        return options.print_document(verdict, code)
    options.say(f"{verdict.decision}: {' '.join(verdict.reasons)}")
    return code
