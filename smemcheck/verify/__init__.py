"""What really happens: launches on a GPU, recorded launches, and what Triton left in its cache.

``triton_cache`` reads a cache folder, ``verdict`` draws conclusions from it and ``verdict_report`` shows them; ``recording``
runs the user's command with ``hook`` inside it, ``harvest`` makes the same lines from a cache; ``hardware`` launches every
config in ``gpu_child`` and ``comparison`` holds it against the report. ``commands`` is the command line of all three.
"""
