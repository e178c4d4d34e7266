"""The axes that shape annotations name, one vocabulary for the whole package.

batch        rows of token ids: one sequence each when padded, several when packed
time         positions in a row; `query` and `key` where the two sides of attention differ in length
width        elements of a token's vector (the lectures' d)
heads        attention heads; `kv_heads` where several query heads share one key/value head
head_width   elements per head (the lectures' d_k)
hidden       hidden width of the feed-forward network
experts      feed-forward experts of a mixture
vocab        tokens of the vocabulary; `classes` labels
"""

from regard.errors import ShapeError


def expect(name: str, expected: object, got: object) -> None:
    """Raises for a size that does not fit, with the expected and the actual one."""
    if expected != got:
        raise ShapeError(f"{name}: expected {expected}, got {got}")
