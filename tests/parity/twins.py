"""Two models with the same weights, one of regard and one written by others: do they compute the same?"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.export.huggingface.parameter_names import ParameterNames, TensorView
from regard.models import Stepper
from regard.nn.layout import Sequences

VALUES = 1e-4
"""Largest difference of any output."""
GRADIENTS = 1e-3
"""Largest difference of any gradient, relative to the largest of its tensor."""
NEGLIGIBLE = 1e-3
"""Tensors without any gradient above this share of the model's largest are measured by that share instead: biases of
keys, which softmax cancels, receive nothing but rounding errors."""

WRITTEN = 10
"""Tokens to write."""
PAD = 0


@dataclass
class Twins:
    """Fills the other model with random numbers, checks that the mapping covers both, and copies the weights over."""

    ours: nn.Module
    theirs: nn.Module
    mapping: ParameterNames
    theirs_only: frozenset[str] = frozenset()
    """Tensors of the other model without a counterpart: fixed tables, parts that are not used."""

    def __post_init__(self) -> None:
        self.ours.eval()
        self.theirs.eval()
        check_coverage(self.mapping, self.ours, self.theirs, self.theirs_only)
        randomise(self.weights.values())
        for name, parameter in self.ours.named_parameters():
            parameter.data.copy_(look(self.mapping[name], self.weights, like=parameter))

    @property
    def weights(self) -> dict[str, Tensor]:
        """The tensors of the other model that have a counterpart."""
        return {name: tensor for name, tensor in tensors(self.theirs).items() if name not in self.theirs_only}

    def compare(self, ours: Tensor, theirs: Tensor, valid: Tensor | None = None) -> None:
        """Outputs where `valid`, and the gradients that a random projection of them sends to every parameter."""
        ours, theirs = (ours, theirs) if valid is None else (ours[valid], theirs[valid])
        torch.testing.assert_close(ours, theirs, atol=VALUES, rtol=0)
        direction = torch.randn(theirs.shape, generator=torch.Generator().manual_seed(1))
        received = gradients((ours * direction).sum(), dict(self.ours.named_parameters()))
        sent = gradients((theirs * direction).sum(), self.weights)
        largest = max(float(gradient.abs().max()) for gradient in sent.values())
        for name, gradient in received.items():
            expected = look(self.mapping[name], sent, like=gradient)
            scale = max(float(expected.abs().max()), NEGLIGIBLE * largest)
            assert float((gradient - expected).abs().max()) <= GRADIENTS * scale, f"gradient of {name}"

    def compare_writing(self, prompts: list[list[int]], source: Sequences | None = None) -> None:
        """Tokens and their logits, both sides writing step by step with their caches."""
        tokens, logits = write(self.ours, prompts, source)  # type: ignore[arg-type]
        expected_tokens, expected_logits = generate(self.theirs, prompts, source)
        assert tokens.tolist() == expected_tokens.tolist()
        torch.testing.assert_close(logits, expected_logits, atol=VALUES, rtol=0)


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters, shared ones once, and the buffers that are saved with them."""
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in model.state_dict()}
    return dict(model.named_parameters()) | buffers


def look(place: TensorView, tensors: dict[str, Tensor], like: Tensor) -> Tensor:
    """What lies at a place, in the shape it has with us."""
    return place.view(tensors[place.name]).reshape(like.shape)


def gradients(loss: Tensor, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The gradient of every weight, each of which must take part."""
    return dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))


def check_coverage(mapping: ParameterNames, ours: nn.Module, theirs: nn.Module, theirs_only: frozenset[str]) -> None:
    """Every parameter of ours has a place, and every number of theirs is the place of exactly one of ours."""
    assert mapping.keys() == dict(ours.named_parameters()).keys()
    taken = {name: torch.zeros_like(tensor) for name, tensor in tensors(theirs).items()}
    for place in mapping.values():
        place.view(taken[place.name]).add_(1)
    wrong = [name for name, times in taken.items() if not (times == (name not in theirs_only)).all()]
    assert not wrong, f"not covered exactly once: {wrong}"
    assert theirs_only <= taken.keys()


def randomise(weights: Iterable[Tensor]) -> None:
    """Random numbers everywhere, so that no gain of one and no bias of zero hides a mistake."""
    generator = torch.Generator().manual_seed(0)
    for weight in weights:
        noise = 0.2 * torch.randn(weight.shape, generator=generator)
        weight.data.copy_(noise if weight.dim() > 1 else weight.data + noise)
        weight.requires_grad_()


def sentences(*lengths: int, vocab: int, seed: int = 2) -> Sequences:
    """Random tokens, one sentence a row, padded; no token is the padding's."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(PAD + 1, vocab, (length,), generator=generator).tolist() for length in lengths]
    return Sequences.padded(rows, pad=PAD)


@torch.no_grad()
def write(model: Stepper, prompts: list[list[int]], source: Sequences | None) -> tuple[Tensor, Tensor]:
    """Tokens written with the cache, each the most probable of those that its row does not hold yet; and all logits.

    Without that condition a model with a shared embedding and random weights repeats one token for ever.
    """
    prompt, rows = Sequences.padded(prompts, pad=PAD), torch.arange(len(prompts))
    held = [{PAD, *tokens} for tokens in prompts]
    tokens, logits = [], []
    state = model.start(source, rows=len(prompts), capacity=prompt.tokens.shape[1] + WRITTEN)
    scores, state = model.step(prompt.tokens, state, prompt.layout.lengths)
    logits.append(scores[rows, prompt.layout.lengths - 1])
    for _ in range(WRITTEN):
        tokens.append(torch.tensor([best_other(scores, held[row]) for row, scores in enumerate(logits[-1])]))
        scores, state = model.step(tokens[-1][:, None], state)
        logits.append(scores[:, -1])
    return torch.stack(tokens, dim=1), torch.stack(logits[:-1], dim=1)


def best_other(scores: Tensor, held: set[int]) -> int:
    """The most probable token that is not held yet; it is from now on."""
    best = next(token for token in scores.argsort(descending=True).tolist() if token not in held)
    held.add(best)
    return best


def generate(model: nn.Module, prompts: list[list[int]], source: Sequences | None) -> tuple[Tensor, Tensor]:
    """The same by a model of Hugging Face; a decoder wants the padding of its prompts on the left."""
    time = max(map(len, prompts))
    written = torch.tensor([[PAD] * (time - len(tokens)) + tokens for tokens in prompts])
    inputs = {"input_ids": written, "attention_mask": written != PAD}
    if source is not None:
        inputs = {"input_ids": source.tokens, "attention_mask": source.layout.valid, "decoder_input_ids": written}
    result = model.generate(  # type: ignore[operator]
        **inputs,
        max_new_tokens=WRITTEN,
        do_sample=False,
        no_repeat_ngram_size=1,
        suppress_tokens=[PAD],
        pad_token_id=PAD,
        output_logits=True,
        return_dict_in_generate=True,
    )
    return result.sequences[:, -WRITTEN:], torch.stack(result.logits, dim=1)
