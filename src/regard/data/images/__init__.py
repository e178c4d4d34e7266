"""Images as data: where they lie, how they are decoded, kept as pixels, and changed at random while training."""
