"""The commands about language models as files."""

import argparse
from pathlib import Path

from nightshift.contracts.verdict import Decision
from nightshift.errors import UserError, require_extra
from nightshift.step import USER_ERROR
from pipelines.cli import options

EXTRA = "language"
WEIGHTS = ("F16", "BF16", "F32")


def add(commands: options.Commands) -> None:
    """Add the commands."""
    text = "Write a language model as a GGUF file, quantize it, and judge what that costs."
    actions = options.add_command(commands, "language", text).add_subparsers(required=True, metavar="action")
    command = options.add_command(actions, "convert", convert.__doc__)
    command.add_argument("folder", type=Path, help="config.json, safetensors and tokenizer.json of a Llama")
    command.add_argument("file", type=Path, help="file to write")
    command.add_argument(
        "--weights", default="F16", choices=WEIGHTS, help="type of the matrices (default: %(default)s)"
    )
    command.set_defaults(command=convert)
    command = options.add_command(actions, "quantize", quantize.__doc__)
    command.add_argument("original", type=Path, help="GGUF file in F16, BF16 or F32")
    command.add_argument("file", type=Path, help="file to write")
    command.add_argument("--form", default="Q4_K_M", help="types of llama.cpp, such as Q8_0 (default: %(default)s)")
    command.set_defaults(command=quantize)
    _add_judge(options.add_command(actions, "judge", judge.__doc__))


def _add_judge(command: argparse.ArgumentParser) -> None:
    command.add_argument("original", type=Path, help="GGUF file of the original")
    command.add_argument("quantized", type=Path, help="GGUF file of the quantized model")
    command.add_argument(
        "--documents", type=Path, required=True, help="file of texts that it was not trained on, one on each line"
    )
    command.add_argument(
        "--output",
        required=True,
        help="folder or URI of the verdict; what a model was measured by is not measured again",
    )
    command.add_argument(
        "--context", type=int, default=512, help="tokens that the models see at most (default: %(default)s)"
    )
    command.add_argument("--threads", type=int, default=2, help="threads of the CPU (default: %(default)s)")
    options.add_json(command, "verdict")
    command.set_defaults(command=judge)


def convert(args: argparse.Namespace) -> int:
    """Write the folder of a Llama as one GGUF file."""
    with require_extra("nightshift language convert", EXTRA):
        from nightshift.language import gguf

    gguf.convert(args.folder, args.file, args.weights)
    return options.say(f"{args.file}: {args.file.stat().st_size / 1e6:,.1f} MB")


def quantize(args: argparse.Namespace) -> int:
    """Write a quantized copy of a model."""
    with require_extra("nightshift language quantize", EXTRA):
        from nightshift.language import quantization

    quantization.quantize(args.original, args.file, args.form)
    share = args.file.stat().st_size / args.original.stat().st_size
    return options.say(f"{args.file}: {args.file.stat().st_size / 1e6:,.1f} MB, {share:.0%} of the original")


def judge(args: argparse.Namespace) -> int:
    """Compare a quantized model with its original, and exit with code 2 if it loses too much."""
    with require_extra("nightshift language judge", EXTRA):
        from nightshift.language import gate
        from nightshift.language.llamacpp import ContextOptions

    if args.context < 2 or args.threads < 1:
        raise UserError(f"--context is {args.context} and --threads {args.threads}; give 2 or more and 1 or more")
    if not args.documents.is_file():
        raise UserError(f"--documents {args.documents} is no file; give one with a text on each line")
    documents = [line for line in args.documents.read_text().splitlines() if line.strip()]
    context = ContextOptions(args.context, args.threads)
    verdict = gate.compare_models(args.original, args.quantized, documents, args.output, context)
    code = USER_ERROR if verdict.decision is Decision.FAIL else 0
    if args.json:
        return options.print_document(verdict, code)
    options.say(f"{verdict.decision}: {' '.join(verdict.reasons)}")
    return code
