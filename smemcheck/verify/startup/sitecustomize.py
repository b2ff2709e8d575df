"""Start-up module of every Python process under ``smemcheck record``: prepares the hook, then runs the user's own one.

Python imports ``sitecustomize`` by itself (``site``), and ``smemcheck record`` puts this folder first on PYTHONPATH, so
child processes get it too. It stands alone in its folder, so that it brings no other name into the user's programs.
Nothing of Triton or torch is touched before the program imports them.
"""

import os
import sys


def _prepare() -> None:
    import importlib.util

    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "hook")
    spec = importlib.util.spec_from_file_location(
        "smemcheck_hook", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["smemcheck_hook"] = module
    spec.loader.exec_module(module)
    module.install(os.environ["SMEMCHECK_RECORD"])


def _chain() -> None:
    """Run the ``sitecustomize`` that Python would have imported without us."""
    import importlib.machinery
    import importlib.util

    own = os.path.dirname(os.path.abspath(__file__))
    rest = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != own]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("SMEMCHECK_RECORD"):
    try:
        _prepare()
    except Exception as error:  # noqa: BLE001 (recording must never break the user's program)
        sys.stderr.write("smemcheck record: this process is not recorded: %r\n" % (error,))
_chain()
