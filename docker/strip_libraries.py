"""Remove the symbols of native libraries that only debuggers read: `strip_libraries.py FOLDER`.

Needs `strip` (binutils). A library that can be loaded with its symbols and not without them stays as it is:
that happens where its sections were moved when the wheel was made.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_LOAD = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], os.RTLD_LAZY)"


def can_load(library: Path) -> bool:
    """Tell whether a process of its own can load the library."""
    return subprocess.run([sys.executable, "-c", _LOAD, str(library)], capture_output=True).returncode == 0


def shrink(library: Path) -> int:
    """Remove the symbols of one library; returns the bytes that it lost."""
    before, smaller, mode = (
        library.stat().st_size,
        library.with_name(f".{library.name}"),
        library.stat().st_mode,
    )
    loads = can_load(library)
    subprocess.run(["strip", "--strip-unneeded", "-o", smaller, library], check=True, capture_output=True)
    if smaller.stat().st_size >= before:
        smaller.unlink()
        return 0
    original = library.with_name(f".{library.name}.original")
    library.rename(original)
    smaller.rename(library)
    library.chmod(mode)
    if loads and not can_load(library):
        original.replace(library)
        print(f"{library} stays as it is: it cannot be loaded without its symbols")
        return 0
    original.unlink()
    return before - library.stat().st_size


def main(folder: Path) -> None:
    libraries = [path for path in sorted(folder.rglob("*.so*")) if path.is_file() and not path.is_symlink()]
    lost = sum(shrink(path) for path in libraries if is_library(path))
    print(f"{len(libraries)} libraries: {lost / 1e6:.0f} MB of symbols removed")


def is_library(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
