"""The proof before commit, and fsck: checks made from the bytes, sharing no code with what wrote them."""
