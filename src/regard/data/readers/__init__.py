"""Readers: one module for each file format, which registers itself (`registry.py`)."""

from regard.config import import_all

import_all(__name__, __path__)
