"""smemcheck: predicts which Triton autotune configs a device would prune, without a GPU and without importing user code."""

__version__ = "0.1.0"
