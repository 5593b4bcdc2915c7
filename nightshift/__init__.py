"""The library under the steps."""

DISTRIBUTION = "nightshift-ml"  # its name on the package index; the import and the command are nightshift
