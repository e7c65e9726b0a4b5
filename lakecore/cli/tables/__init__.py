"""Commands that read and change tables: create, alter, describe, read, stream, write, delete."""
