"""Several processes: DDP, FSDP2, experts divided among processes."""
