"""The proof before a commit: each unit, each pick, and the message that is about to be committed."""
