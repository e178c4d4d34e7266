"""regard: train a Transformer on your own data, see which of its parts matter, look inside it, ship it."""

import os

__version__ = "0.1.0"

# torch's CPU threads wait for one another by spinning. The usual long spin makes every step of a small model tens of
# times slower as soon as another program wants a core; a short one costs nothing measurable on an idle machine.
os.environ.setdefault("GOMP_SPINCOUNT", "5000")
