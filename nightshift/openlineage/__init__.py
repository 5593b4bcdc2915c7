"""Lineage of a night for catalogs such as Marquez and DataHub: events of OpenLineage, one at a step's start and end.

Where events go is the library's configuration (`OPENLINEAGE_URL` or `OPENLINEAGE__TRANSPORT__...`); without one nothing
of this package is imported. See docs/guides/integrations/openlineage.md.
"""
