"""The checks of sensors and triggers: new snapshots, new data, a tag, finished partitions."""
