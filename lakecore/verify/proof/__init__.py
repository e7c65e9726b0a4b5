"""This package has the proof before a commit: of each unit, each pick, and the message that is about to be
committed.
"""
