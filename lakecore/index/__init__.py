"""File indexes, deletion vectors and hash indexes: bytes to answers and back. No IO."""
