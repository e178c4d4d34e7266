"""`regard init`: task, splits and columns guessed from files."""
