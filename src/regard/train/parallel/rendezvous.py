"""Where the processes that torchrun started find one another: a store that its agent keeps.

torchrun starts all processes again after a failure, but keeps the store; what the dead ones left in it, such as the
addresses they listened at, must not be found by those that come after them. So each start has keys of its own.
"""

import os
from datetime import timedelta

import torch.distributed as dist


def kept_by_agent() -> bool:
    """Whether torchrun's agent keeps the store, and not the first process."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def store_for(purpose: str, patience: timedelta = timedelta(minutes=30)) -> dist.Store:  # type: ignore[reportPrivateImportUsage]
    """The store, with keys for one purpose and this start of the processes; waits for a key for so long."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=patience)  # type: ignore[reportPrivateImportUsage]
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"regard/{purpose}/{start}", store)  # type: ignore[reportPrivateImportUsage]
