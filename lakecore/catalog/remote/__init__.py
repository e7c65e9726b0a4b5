"""This package has what catalogs with a server share: options, pauses, and answers that are lost."""
