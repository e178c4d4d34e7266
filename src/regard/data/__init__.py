"""Raw files to examples, token ids and batches; no torch modules."""
