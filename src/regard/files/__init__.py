"""Files that survive a kill: atomic writes, strict JSON, manifests, locks. No torch."""
