"""This package tags days or hours that are over: for each the last snapshot before its end, exactly once.

What the rule answers depends on history alone, so it may be asked again at any time: a tag that is there is
left, a missing one is made from what is still there, and one that cannot be known any more is never guessed.
"""
