"""`python -m regard` is the command line."""

from regard.cli import main

main()
