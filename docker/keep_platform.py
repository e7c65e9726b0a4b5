"""Remove from Spark's jars the native libraries of other platforms: `keep_platform.py JARS_FOLDER`.

rocksdbjni and zstd-jni carry libraries for macOS, Windows and every processor that Linux runs on, 73 MB
in all. The classes stay as they are. A jar that would lose all of its libraries ends the build.
"""

from __future__ import annotations

import platform
import sys
import zipfile
from pathlib import Path

_LIBRARIES = (".so", ".dll", ".jnilib", ".dylib")
_KEPT = {  # parts of names, by the processor of this machine
    "x86_64": {"rocksdbjni": "jni-linux64.so", "zstd-jni": "linux/amd64/"},
    "aarch64": {"rocksdbjni": "jni-linux-aarch64.so", "zstd-jni": "linux/aarch64/"},
}


def shrink(jar: Path, kept: str) -> int:
    """Write the jar again without the libraries whose names lack `kept`; returns the bytes that it lost."""
    before, smaller, libraries = jar.stat().st_size, jar.with_suffix(".new"), 0
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(smaller, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if entry.filename.endswith(_LIBRARIES):
                if kept not in entry.filename:
                    continue
                libraries += 1
            new.writestr(entry, old.read(entry))
    if not libraries:
        smaller.unlink()
        raise SystemExit(
            f"{jar.name} has no library whose name contains {kept}: change docker/keep_platform.py"
        )
    smaller.replace(jar)
    return before - jar.stat().st_size


def main(folder: Path) -> None:
    kept = _KEPT.get(platform.machine(), {})
    for name, part in kept.items():
        for jar in folder.glob(f"{name}-*.jar"):
            print(f"{jar.name}: {shrink(jar, part) / 1e6:.0f} MB of other platforms removed")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
