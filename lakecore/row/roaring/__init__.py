"""This package has Roaring bitmaps: of 32-bit numbers in the portable serialisation, of 64-bit numbers in
that of Java.
"""
