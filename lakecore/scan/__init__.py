"""Which snapshot, which files, and which splits a read needs: plans for batch reads and for streams."""
