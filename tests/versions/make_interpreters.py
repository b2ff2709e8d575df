"""Make one virtual environment for each Triton that smemcheck knows, for the tests beside this file.

    python tests/versions/make_interpreters.py FOLDER

installs ``triton`` (and setuptools, which 3.2 imports) into FOLDER/triton-VERSION and prints the line that tells the tests:
``export SMEMCHECK_TRITONS=FOLDER/triton-3.2.0/bin/python:…``. What is there already is kept. It takes about 1.5 GB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

VERSIONS = ("3.2.0", "3.3.1", "3.4.0", "3.5.1", "3.6.0", "3.7.1", "3.8.0", "3.9.0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.resolve()
    pythons = []
    for version in VERSIONS:
        environment = folder / f"triton-{version}"
        python = environment / "bin" / "python"
        if subprocess.run([python, "-c", "import triton"], check=False).returncode if python.exists() else True:
            venv.create(environment, with_pip=True, clear=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", f"triton=={version}", "setuptools"], check=True)
        pythons.append(str(python))
    sys.stdout.write(f"export SMEMCHECK_TRITONS={os.pathsep.join(pythons)}\n")


if __name__ == "__main__":
    main()
