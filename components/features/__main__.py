"""The shell of the features step: events manifest in, features manifest and missing partitions out."""

from argparse import Namespace
from dataclasses import replace
from datetime import date

from components.features import component, section
from nightshift import storage, tasks
from nightshift.contracts import tables
from nightshift.contracts.feature_shard import FeatureShard
from nightshift.contracts.section import write_section
from nightshift.contracts.tables import Partition
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.runtime.step import log, run
from nightshift.tasks.base.features import DailyFeatures, FeatureSetup

PASSED_ON = ("unlabeled", "signals")  # details of the events that later steps read


def body(context: StepContext) -> dict[str, float]:
    """Compute the days that are missing in the lake and list all days in the manifest, or compute a shard of them."""
    args, config, device = context.args, context.config, context.device
    events = tables.read_table(args.events)
    lake, dask = context.state.lake, context.state.dask
    setup = FeatureSetup(config, lake, events, device, scratch(lake, config.name, args.events), dask)
    daily = tasks.find(config.task.kind).features.features(setup)
    uris = {day: daily.uri(day) for day in context.plan.features}
    kept = {day: part for day, uri in uris.items() if (part := tables.find_partition(uri))}
    missing = {day: uri for day, uri in uris.items() if day not in kept}
    log.info("features: %d days are in the lake, %d to compute on %s", len(kept), len(missing), device)
    if getattr(args, "shard", None) is not None:
        daily.write_shard(missing, *read_numbers(args)).write(args.features)
        return {}
    written = write(daily, missing, context.list_uris("computed"))
    # what a partition says of its columns stays beside it: a manifest is small
    parts = [replace((kept | written)[day], details={}) for day in uris]
    described = daily.details(parts)
    about_events = {"events_sha256": events.sha256} | {k: events.details[k] for k in PASSED_ON if k in events.details}
    table = tables.Table("features", parts, {**about_events, **described.details})
    write_section(args.features, section.build(table, len(written), device, described))
    tables.write_table(args.features, table)
    return {"rows": table.rows, "computed_days": len(written), **described.metrics}


def write(daily: DailyFeatures, missing: dict[date, str], computed: list[str]) -> dict[date, Partition]:
    """Write the missing days, of what shards have computed if there were some before this step."""
    if computed:
        return daily.join(missing, [FeatureShard.read(uri) for uri in computed])
    return daily.write(missing) if missing else {}


def read_numbers(args: Namespace) -> tuple[int, int]:
    """Return the number of the shard, and how many there are.

    Raises:
        UserError: when they are none.
    """
    try:
        number, count = int(args.shard), int(args.shards or 0)
    except ValueError:
        number, count = 0, 0
    if not 0 <= number < count:
        raise UserError(
            f"--shard is {args.shard!r} with --shards {args.shards!r}; give a whole number from 0 and a larger one"
        )
    return number, count


def scratch(lake: str, use_case: str, events: str) -> str:
    """Return where workers leave what others need: no other run writes there, and this one again when tried again."""
    return storage.join(lake, use_case, "scratch", storage.fingerprint(events)[:16])


if __name__ == "__main__":
    run(component.contract.parser(), body)
