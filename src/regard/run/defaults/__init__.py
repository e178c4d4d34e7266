"""Defaults that follow from the task, the data, the budget and the machine; the rules and how they were found: docs/defaults.md."""
