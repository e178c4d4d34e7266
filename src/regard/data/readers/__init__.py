"""Readers: one file for each format of examples."""
