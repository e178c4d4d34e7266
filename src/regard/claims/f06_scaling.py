"""F6: unscaled dot products grow with d and saturate the softmax; variance is 1 after scaling."""

import torch
from matplotlib.figure import Figure

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.figure import ATTENTION, RECURRENT, label_line
from regard.claims.setup import Setup, exponent
from regard.nn.attention.reference import reference_attention

WIDTHS = (4, 16, 64, 256, 1024)
KEYS = 64
SCALES = {"unscaled": 1.0, "scaled": None}


class Scaling(Claim):
    name, title = "f6", "scaling the dot product"
    says = (
        "Dot products grow with d and saturate the softmax, which kills its gradient; divided by √d their variance is "
        "1."
    )
    how = (
        f"Scores of random unit-variance queries and keys, {KEYS} keys each: their variance, the largest attention "
        "weight, and how much of the gradient passes the softmax (the norm of its Jacobian)."
    )

    def measure(self, setup: Setup) -> Numbers:
        setup.seeded()
        queries = setup.pick(512, 64)
        rows = {name: [_row(width, queries, scale) for width in WIDTHS] for name, scale in SCALES.items()}
        return {"widths": list(WIDTHS)} | {
            name: {key: [row[key] for row in by_width] for key in by_width[0]} for name, by_width in rows.items()
        }

    def check(self, numbers: Numbers) -> list[Finding]:
        unscaled, scaled = numbers["unscaled"], numbers["scaled"]
        growth = exponent(numbers["widths"], unscaled["variance"])
        off = max(abs(value - 1) for value in scaled["variance"])
        lost = scaled["jacobian"][-1] / unscaled["jacobian"][-1]
        return [
            Finding("the variance of unscaled scores grows as d", f"as d^{growth:.2f}",
                    at_most(abs(growth - 1), 0.1, 0.5)),
            Finding("after scaling it is 1", f"at most {off:.2f} off", at_most(off, 0.15, 0.5)),
            Finding("unscaled scores saturate the softmax",
                    f"largest weight {unscaled['largest'][-1]:.2f}, scaled {scaled['largest'][-1]:.2f}",
                    at_least(unscaled["largest"][-1], 0.8, 0.4)),
            Finding("which costs gradient", f"{lost:.1f} times less passes at d = {numbers['widths'][-1]}",
                    at_least(lost, 1.5, 1.0)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        unscaled, scaled = (numbers[name]["largest"][-1] for name in SCALES)
        return (
            f"At d = {numbers['widths'][-1]} one of {KEYS} keys takes {unscaled:.0%} of an unscaled softmax, "
            f"{scaled:.0%} of a scaled one"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        left, right = figure.subplots(1, 2)
        widths = numbers["widths"]
        for name, colour in (("unscaled", RECURRENT), ("scaled", ATTENTION)):
            left.loglog(widths, numbers[name]["variance"], "o-", color=colour)
            right.semilogx(widths, numbers[name]["largest"], "o-", color=colour)
            label_line(right, widths, numbers[name]["largest"], name, colour)
        left.set_title("variance of the scores")
        right.set_title("largest attention weight")
        right.set_ylim(0, 1)
        right.set_xlim(right=widths[-1] * 14)
        for axes in (left, right):
            axes.set_xlabel("width of a head, d")
            axes.set_xticks(widths, [str(width) for width in widths])
            axes.minorticks_off()


def _row(width: int, queries: int, scale: float | None) -> dict[str, float]:
    query, key = torch.randn(1, 1, queries, width), torch.randn(1, 1, KEYS, width)
    steps = reference_attention(query, key, key, scale=scale)
    weights = steps.weights[0, 0]
    # the Jacobian of a softmax with weights w is diag(w) − wwᵀ
    jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
    return {
        "variance": float(steps.scaled.var()),
        "largest": float(weights.amax(-1).mean()),
        "jacobian": float(jacobian.norm(dim=(1, 2)).mean()),
    }
