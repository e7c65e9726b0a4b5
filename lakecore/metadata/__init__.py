"""Records of the format as frozen values, with their encodings; manifest entries as numpy columns. No IO."""
