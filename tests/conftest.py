"""What every test runs under: no network, and one thread, which is fastest for tiny models and repeatable."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported, also by child processes
