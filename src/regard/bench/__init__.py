"""This machine beside the peers: the same work for every program, each in a process of its own, in turns."""
