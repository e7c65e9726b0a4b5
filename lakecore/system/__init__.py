"""System tables (`t$snapshots`, `t$files`, ...) as Arrow tables, columns as the format names them."""
