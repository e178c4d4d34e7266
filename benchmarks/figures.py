"""The pictures of the README, drawn from a trained demo: `regard demo && python benchmarks/figures.py runs/demo`."""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure

from regard import api
from regard.data.street import LECTURE_SENTENCES
from regard.nn.attention.reference import record_attention
from regard.nn.layout import Sequences
from regard.text.special_tokens import BOS, EOS


def main() -> None:
    run = api.load(sys.argv[1] if len(sys.argv) > 1 else "runs/demo")
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, (english, _) in zip(panels, LECTURE_SENTENCES, strict=True):
        german = api.translate(run, [english])[0]
        words, pieces, weights = attention_of_it(run, english, german)
        axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(words)), words, rotation=60, ha="right")
        axes.set_yticks(range(len(pieces)), pieces)
        axes.set_title(german, fontsize=10)
    figure.suptitle("What each German word looks at: cross-attention of the last layer, mean over heads")
    out = Path("docs/images/attention.png")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=120)
    print(out)


@torch.no_grad()
def attention_of_it(run: api.Run, english: str, german: str) -> tuple[list[str], list[str], torch.Tensor]:
    """Source tokens, target tokens, and the weight of each pair."""
    source, target = run.task.source.encode(english), run.task.target.encode(german)
    grids = Sequences.padded([[*source, EOS]]), Sequences.padded([[BOS, *target]])
    with record_attention(run.model) as seen:
        run.model(*grids)
    last = [steps[0].weights[0].mean(0) for name, steps in seen.items() if name.endswith(".cross")][-1]
    return [*run.task.source.tokens(source), "<eos>"], [*run.task.target.tokens(target), "<eos>"], last


if __name__ == "__main__":
    main()
