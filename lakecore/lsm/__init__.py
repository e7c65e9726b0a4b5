"""This package has the shape of a bucket (runs, levels, sections) and the rules that pick what to merge.
It does no IO and knows no clock.
"""
