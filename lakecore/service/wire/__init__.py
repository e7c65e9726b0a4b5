"""This package has the wire protocol of Paimon's query service: frames, their contents, and rows as bytes."""
