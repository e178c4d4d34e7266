"""regard: train a Transformer on your own data, see which of its parts matter, look inside it, ship it."""

__version__ = "0.1.0"
