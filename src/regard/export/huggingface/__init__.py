"""Hugging Face folders, written and read."""
