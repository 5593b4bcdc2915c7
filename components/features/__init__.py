"""Features: trailing windows per customer and, delayed by the label delay, per terminal.

Reads the `events` manifest and the event partitions it names. Writes, per day, one partition of model
inputs to the lake, the online state's snapshot of the logical date, and the `features` manifest, with what came of
replaying that date online. A day whose events and settings have not changed is not computed again.

Of images: a shard of pixels a day, beside the partition that says whose they are.
"""
