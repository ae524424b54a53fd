"""Compiles a folder, or the standard library, when the image is built."""

import compileall
import re
import sys
import sysconfig

UNUSED = re.compile(r"/(test|tests|idlelib|turtledemo|lib2to3|site-packages)/")

if __name__ == "__main__":
    # The base image is anybody's.
    if sys.version_info < (3, 11):  # noqa: UP036
        sys.exit(f"the base image has Python {sys.version.split()[0]}, and 3.11 or newer is needed")
    if len(sys.argv) > 1:
        sys.exit(not compileall.compile_dir(sys.argv[1], quiet=1))
    # Some of its files are wrong on purpose.
    compileall.compile_dir(sysconfig.get_path("stdlib"), quiet=2, workers=0, rx=UNUSED)
