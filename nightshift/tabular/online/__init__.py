"""Features of raw events as they come in, equal to those that the batch kernel computes later.

A snapshot (`snapshot.py`) is what the windows of the next days need of the past: immutable arrays that are mapped into
memory (`base.py`). What has come in since lies over it, in this process with a write-ahead log (`embedded.py`) or in
Redis (`shared.py`), behind one interface (`store.py`). `follower.py` moves it to newer snapshots. `skew.py` replays a
day and compares it with the batch.

A server does this in its `folder`, given a model's `package`, the `lake` of its use case and a `raw` event; the other
store is `Shared`:

    from pathlib import Path

    from nightshift.tabular.online import snapshot
    from nightshift.tabular.online.embedded import Embedded
    from nightshift.tabular.online.event import EventParser

    base = snapshot.map_file(snapshot.newest(lake, "fraud", package.tabular), folder)
    parser, store = EventParser(base.snapshot.events, base.layout.keeps_categories), Embedded(Path(folder), base)
    rows = store.take([parser.read(raw)])  # in the order of `package.inputs.numeric`
    store.commit()  # then answer; a newer snapshot: store.swap(...); a label: store.label(...)

The rules, which are the batch kernel's:

- Events count in order of time; those of the same time in the order of arrival, in a request that is not in order of
  time by `event_id`. One that comes late is put in its place; answers already given stay as they were.
- An event is known by its id and its UTC day. The second time nothing changes, and it is answered from its place; with
  another time, or another value of what is kept of it, it is refused. The same id on another day is a second event
  here, and both count until a snapshot covers the later of the days: it has the one that ingestion lets stay
  (`source.corrections`).
- Unknown entities have empty windows. An event of a day before the snapshot's is refused, since its
  windows reach back further than the snapshot does.
- A label changes the windows of its event's entities as soon as it arrives. It is kept when a newer snapshot comes
  in, unless that one has a label of its own for the event. Apart from that, days that a snapshot covers are as the lake
  has them.
- Extra numeric columns are passed on as float64; categorical ones stay with whoever has the event, unless features are
  made of them.
"""
