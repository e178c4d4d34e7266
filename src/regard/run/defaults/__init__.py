"""Defaults that follow from the task, the data, the budget and the machine: docs/defaults.md."""
