"""This package encodes and searches file indexes, deletion vectors and hash indexes. No IO."""
