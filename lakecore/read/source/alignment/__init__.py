"""This package lets streams of a group wait for each other, so that their watermarks stay close.

`rule` decides who waits, `stream_watermark` gets the watermark of changes from their plan, and
`aligned_stream` keeps it in step with the position of a stream.
"""
