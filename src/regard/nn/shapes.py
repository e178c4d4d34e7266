"""The axes that shape annotations name, one vocabulary for the whole package.

batch        rows of a grid of tokens: one sentence each when padded, several when packed
time         places in a row; `query` and `key` where the two sides of attention differ in length
width        numbers that describe one token inside the model (the lectures' d)
heads        attention heads; `kv_heads` where several query heads share one key/value head
head_width   numbers per head (the lectures' d_k)
hidden       inner width of the feed-forward part
experts      feed-forward experts of a mixture
vocab        tokens that can be written; `classes` labels that can be given
"""

from regard.errors import ShapeError


def expect(name: str, expected: object, got: object) -> None:
    """Refuses a size that does not fit, naming what was expected and what came."""
    if expected != got:
        raise ShapeError(f"{name}: expected {expected}, got {got}")
