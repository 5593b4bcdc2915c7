"""A step's inputs and outputs as OpenLineage's datasets: names, schemas, row counts, and what was found wrong."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    InputDatasetFacet,
    dataset_version_dataset,
    datasource_dataset,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
    schema_dataset,
)

from nightshift import storage
from nightshift.contracts import tables
from nightshift.contracts.tables import Table
from nightshift.openlineage import quality
from nightshift.openlineage.naming import (
    DatasetName,
    name_artifact,
    name_model,
    name_relation,
    name_sources,
    name_table,
)
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.runtime.identity import StepIdentity, list_artifacts
from nightshift.runtime.masking import mask_secrets
from nightshift.storage import stores

MANIFESTS = {"events": "", "features": "", "scores": "scores.json"}  # artifact -> its manifest, below its URI
REGISTERING, REGISTERED = ("deployment", "release"), ("release", "loadtest", "scoring")
JUDGED = ("model", "features")  # inputs that a gate is about, before others


@dataclass(frozen=True)
class StepDatasets:
    """What a step reads and writes.

    Attributes:
        context: its flags.
        step: its identity.
        component: name of its component.
        written: names of the artifacts that it writes.
    """

    context: StepContext
    step: StepIdentity
    component: str
    written: Sequence[str]

    def list_inputs(self) -> list[InputDataset]:
        """Return what the step reads; each is there when the step starts."""
        inputs = [_make_input(artifact) for artifact in self._inputs]
        return inputs + [InputDataset(*name) for name in self._list_outside_inputs()]

    def list_outputs(self) -> list[OutputDataset]:
        """Return what the step has written."""
        outputs = [_make_output(artifact) for artifact in self._outputs]
        return outputs + [OutputDataset(*name) for name in self._list_outside_outputs()]

    def judge(self, inputs: list[InputDataset]) -> list[InputDataset]:
        """Add to what the step has read what it found wrong: rows in quarantine, and the verdict of a gate."""
        assertions = [one for output in self._outputs if output.table for one in quality.list_rejected(output.table)]
        assertions += [one for output in self._outputs for one in quality.list_measures(output.uri)]
        if assertions and inputs:
            facets: dict[str, InputDatasetFacet] = {"dataQualityAssertions": quality.make_facet(assertions)}
            subject = inputs[self._find_subject()]
            subject.inputFacets = (subject.inputFacets or {}) | facets
        return inputs

    def _find_subject(self) -> int:
        """Return which input a gate is about: the model, else the features, else the first."""
        names = [artifact.name for artifact in self._inputs]
        return next((names.index(name) for name in JUDGED if name in names), 0)

    @cached_property
    def _inputs(self) -> "list[RunArtifact]":
        return [RunArtifact(name, uri, self.step) for name, uri in self._list("inputs")]

    @cached_property
    def _outputs(self) -> "list[RunArtifact]":
        """What the step has written: read once it has."""
        return [RunArtifact(name, uri, self.step) for name, uri in self._list("outputs") if name in self.written]

    def _list(self, kind: str) -> list[tuple[str, str]]:
        artifacts = list_artifacts(self.context.args.executor_input, kind)
        return [(name, uri) for name, uris in artifacts.items() for uri in uris]

    def _list_outside_inputs(self) -> Iterator[DatasetName]:
        """Yield what no step of the run has written: the raw rows, and a version in the registry."""
        if not self.context.use_case:
            return
        args, config = self.context.args, self.context.config
        if self.component == "ingestion":
            yield from name_sources(args.data, config.source, config.name)
        elif self.component in REGISTERED and not getattr(args, "model", None):
            yield name_model(self.context.state.registry, config.name)

    def _list_outside_outputs(self) -> Iterator[DatasetName]:
        if not self.context.use_case:
            return
        config = self.context.config
        if self.component in REGISTERING:
            yield name_model(self.context.state.registry, config.name)
        elif self.component == "scoring" and config.scoring.database and not self.context.args.model:
            yield name_relation(config.scoring.database, config.scoring.table or "")


@dataclass(frozen=True)
class RunArtifact:
    """An artifact of a run: a table's manifest, or a file or folder.

    Attributes:
        name: as the step's contract has it.
        uri: where it lies.
        step: a step of its run.
    """

    name: str
    uri: str
    step: StepIdentity

    @cached_property
    def table(self) -> Table | None:
        """The table that it lists; None where it lists none, or is not there."""
        if (manifest := MANIFESTS.get(self.name)) is None:
            return None
        try:
            return tables.read_table(storage.join(self.uri, manifest) if manifest else self.uri)
        except (UserError, OSError):
            return None

    @property
    def dataset(self) -> DatasetName:
        """Its name: of a table in the lake, whichever run lists it."""
        if self.table and self.table.partitions:
            return name_table(self.table.partitions[0].uri)
        return name_artifact(self.uri, self.step.run)

    @property
    def facets(self) -> dict[str, DatasetFacet]:
        """Which version of the dataset it is, and its whole URI."""
        version = self.table.sha256 if self.table else self.step.run.name
        uri = mask_secrets(self.uri)
        return {
            "version": dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=version),
            "dataSource": datasource_dataset.DatasourceDatasetFacet(name=self.dataset.namespace, uri=uri),
        }


def _make_input(artifact: RunArtifact) -> InputDataset:
    dataset, table = InputDataset(*artifact.dataset, facets=artifact.facets), artifact.table
    if table:
        statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet
        dataset.inputFacets = {"inputStatistics": statistics(rowCount=table.rows, fileCount=len(table.partitions))}
    return dataset


def _make_output(artifact: RunArtifact) -> OutputDataset:
    dataset, table = OutputDataset(*artifact.dataset, facets=artifact.facets), artifact.table
    if table and table.partitions:
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        dataset.outputFacets = {"outputStatistics": statistics(rowCount=table.rows, fileCount=len(table.partitions))}
        dataset.facets = {**(dataset.facets or {}), "schema": _describe_columns(table)}
    return dataset


def _describe_columns(table: Table) -> schema_dataset.SchemaDatasetFacet:
    """Return the columns and types of a table's newest day that has rows."""
    import pyarrow.parquet as pq

    filled = [part for part in table.partitions if part.rows] or table.partitions
    fs, path = stores.open_store(filled[-1].uri)
    with fs.open(path, "rb") as file:
        columns = pq.read_schema(file)
    field = schema_dataset.SchemaDatasetFacetFields
    return schema_dataset.SchemaDatasetFacet(fields=[field(name=one.name, type=str(one.type)) for one in columns])
