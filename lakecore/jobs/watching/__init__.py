"""This package has the checks of sensors and triggers: new snapshots, new data, a tag, finished
partitions.
"""
