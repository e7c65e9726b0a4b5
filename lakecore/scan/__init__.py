"""The scan package decides which snapshot, which files and which splits a batch read or a stream needs."""
