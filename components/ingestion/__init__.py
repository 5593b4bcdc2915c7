"""Ingestion: a user's transactions, day by day, checked and under canonical names, in the lake.

Reads: files by day or one table (Parquet, CSV or WebDataset's tar; local, s3://, gs://), with images as bytes or as
names of files, a query of a database, a Delta Lake or Iceberg table, a Kafka topic, or the embedded simulator.
Writes: a Parquet partition a day, a quarantine file for each day with bad rows, and the events manifest; a topic's new
messages by day.
"""
