"""The shape of a bucket (runs, levels, sections) and the rules that pick what to merge. No IO, no clock."""
