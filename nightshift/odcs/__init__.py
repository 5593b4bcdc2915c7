"""Data contracts of the Open Data Contract Standard, version 3 (ODCS): a config from one, and one from a config.

`contract_node.py` reads a document by its paths and knows what was not read, `importing.py` makes a config of it,
`exporting.py` makes a document. Both are pure; `nightshift contract` reads and writes the files.
"""

# a custom property of a column: the field of the config's `columns` that names it; contracts have no word for it
ROLE = "nightshiftRole"
# a custom property of a table: the config's `source`, of which a server says a part only
SOURCE = "nightshiftSource"
# a custom property of a contract: the config's `task.kind`
TASK = "nightshiftTask"
