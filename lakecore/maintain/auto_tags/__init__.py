"""This package makes the tags that the options `tag.automatic-creation`, `tag.creation-*` and
`tag.num-retained-max` ask for.

The rule looks at history, not at the clock: of the snapshots after the newest automatic tag, the first one
that lies a whole period (and the delay) after that tag gets the tag of the period before its own. So it makes
the same tags whenever it runs, as long as the snapshots are there, and a killed run is continued by the next.
"""
