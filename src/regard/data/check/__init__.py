"""`regard data check`: what is wrong with the files of a person."""
