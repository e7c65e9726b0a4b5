"""The command line: parse arguments, call the core, print what it returns. Holds no logic of the core."""
