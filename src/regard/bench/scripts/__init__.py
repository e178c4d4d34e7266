"""One script per program, run as a process of its own: regard, regard on CTranslate2, and plain torch.

The scripts of other programs are in `benchmarks/peers` of the repository. Each runs in whatever environment has its
program and imports nothing of regard but `protocol.py`.
"""
