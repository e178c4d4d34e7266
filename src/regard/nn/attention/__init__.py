"""Attention in all its forms. Start reading at `module.py`."""
