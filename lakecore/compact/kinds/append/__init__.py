"""Append tables: small files of a bucket are joined, and rows that deletion vectors mark are left out."""
