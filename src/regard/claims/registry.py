"""All claims by name, in the order of the lectures' rows."""

from collections.abc import Sequence

from regard.claims.claim import Claim
from regard.claims.f01_order import Order
from regard.claims.f02_distance import Distance
from regard.claims.f03_steps import Steps
from regard.claims.f04_averages import Averages
from regard.claims.f05_mask import Mask
from regard.claims.f06_scaling import Scaling
from regard.claims.f07_heads import Heads
from regard.claims.f08_residuals import Residuals
from regard.claims.f09_norm import Norm
from regard.claims.f10_length import Length
from regard.claims.f11_cost import Cost
from regard.claims.f12_bottleneck import Bottleneck
from regard.claims.f13_gates import Gates
from regard.claims.f14_coreference import CoreferenceHead
from regard.claims.f15_bleu import Bleu
from regard.claims.f16_power_law import PowerLaw
from regard.claims.f17_bends import Bends
from regard.errors import ConfigError, nearest

KINDS: tuple[type[Claim], ...] = (
    Order, Distance, Steps, Averages, Mask, Scaling, Heads, Residuals, Norm, Length, Cost, Bottleneck, Gates,
    CoreferenceHead, Bleu, PowerLaw, Bends,
)  # fmt: skip
CLAIMS: dict[str, Claim] = {kind.name: kind() for kind in KINDS}


def chosen(names: Sequence[str] = ()) -> list[Claim]:
    """The claims of these names, or all; `F02` and `f2` are the same."""
    wanted = [_plain(name) for name in names]
    for name, given in zip(wanted, names, strict=True):
        if name not in CLAIMS:
            raise ConfigError("claims", f"unknown claim '{given}'; {nearest(name, CLAIMS)}")
    return [claim for name, claim in CLAIMS.items() if not wanted or name in wanted]


def _plain(name: str) -> str:
    letters, digits = name[:1].lower(), name[1:]
    return f"{letters}{int(digits)}" if digits.isdecimal() else name.lower()
