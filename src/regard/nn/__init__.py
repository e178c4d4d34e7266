"""Tensors only: the parts of the lectures, each usable by hand. Start reading at `attention.py`."""
