"""What sensors and triggers ask of a table: new snapshots, new data, a tag, finished partitions."""
