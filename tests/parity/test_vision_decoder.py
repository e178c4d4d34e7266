"""The describer of images beside one made of `torch.nn`: a convolution, an encoder, a decoder."""

import mappings
import torch
from torch import Tensor, nn
from twins import Twins

from regard.export.huggingface.parameter_names import ParameterNames, TensorView, linear, prefixed
from regard.models import Patches, VisionEncoderDecoderConfig
from regard.nn.layout import Sequences

WIDTH, HEADS, DEPTH, VOCAB = 32, 4, 2, 19
IMAGE, PATCH, CHANNELS, TIME = 12, 4, 3, 7


class Theirs(nn.Module):
    """Reads patches through a convolution, as everybody else does."""

    def __init__(self) -> None:
        super().__init__()
        shape = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True}
        self.patches = nn.Conv2d(CHANNELS, WIDTH, PATCH, PATCH)
        self.places = nn.Parameter(torch.zeros((IMAGE // PATCH) ** 2, WIDTH))
        self.words, self.turns = nn.Embedding(VOCAB, WIDTH), nn.Embedding(TIME, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, **shape)
        self.encoder = nn.TransformerEncoder(layer, DEPTH, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 4 * WIDTH, **shape)
        self.decoder = nn.TransformerDecoder(layer, DEPTH, nn.LayerNorm(WIDTH))
        self.output = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, images: Tensor, tokens: Tensor) -> Tensor:
        read = self.encoder(self.patches(images).flatten(2).transpose(1, 2) + self.places)
        hidden = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
        written = self.words(tokens) + self.turns.weight[: tokens.shape[1]]
        return self.output(self.decoder(written, read, tgt_mask=hidden))


def mapping() -> ParameterNames:
    return {
        "patch_embedding.weight": TensorView("patches.weight", lambda weight: weight.flatten(1)),
        "patch_embedding.bias": TensorView("patches.bias"),
        "target_embedding.table.weight": TensorView("words.weight"),
        "encoder.positions.0.table.weight": TensorView("places"),
        "decoder.positions.0.table.weight": TensorView("turns.weight"),
        **prefixed("encoder", "encoder", mappings.torch_stack(DEPTH, cross=False, final_norm=True)),
        **prefixed("decoder", "decoder", mappings.torch_stack(DEPTH, cross=True, final_norm=True)),
        **linear("head.linear", "output", bias=False),
    }


def test_logits_and_gradients() -> None:
    config = VisionEncoderDecoderConfig(
        width=WIDTH,
        heads=HEADS,
        depth=DEPTH,
        image=IMAGE,
        patch=PATCH,
        position={"kind": "learned", "length": (IMAGE // PATCH) ** 2},
        decoder_position={"kind": "learned", "length": TIME},
        feedforward={"kind": "plain", "activation": "gelu"},
        embedding={"share": "none", "scale": False},
    )
    twins = Twins(config.build(VOCAB), Theirs(), mapping())
    images = torch.randn(3, CHANNELS, IMAGE, IMAGE, generator=torch.Generator().manual_seed(2))
    tokens = torch.randint(0, VOCAB, (3, TIME), generator=torch.Generator().manual_seed(3))
    twins.compare(twins.ours(Patches.of(images, PATCH), Sequences.full(tokens)), twins.theirs(images, tokens))
