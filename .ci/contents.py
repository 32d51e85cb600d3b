"""What wheel and sdist hold: every tracked file that belongs there, and nothing else.

Usage: python .ci/contents.py WHEEL SDIST
"""

import subprocess
import sys
import tarfile
import zipfile

MADE = {"PKG-INFO", "setup.cfg"}  # by setuptools
LEFT_OUT = {".gitignore"}


def check(name, found, wanted):
    if found != wanted:
        sys.exit(f"{name} lacks {sorted(wanted - found)} and has {sorted(found - wanted)}")


def main(wheel, sdist):
    tracked = set(subprocess.check_output(["git", "ls-files"], text=True).split("\n")) - {""}
    names = set(zipfile.ZipFile(wheel).namelist())
    check(wheel, {name for name in names if ".dist-info/" not in name},
          {name for name in tracked if name.startswith("jaxpriv/")})
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    check(sdist, {name for name in names - MADE if not name.startswith("jaxpriv.egg-info/")},
          {name for name in tracked - LEFT_OUT if not name.startswith(".github/")})


main(*sys.argv[1:])
