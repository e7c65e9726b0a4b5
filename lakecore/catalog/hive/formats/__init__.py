"""This package has the format tables of a metastore: directories of csv, json, orc, parquet or text files."""
