"""The files of one bucket: rolled at their target size, with the metadata that a manifest needs."""
