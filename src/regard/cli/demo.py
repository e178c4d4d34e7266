"""`regard demo`: builds each preset and shows what it is made of."""


def demo() -> None:
    """Builds each known model and prints its parts, parameters and FLOPs."""
    import torch
    from rich.console import Console
    from rich.table import Table

    from regard.models import PRESETS
    from regard.run.recipe import resolve_recipe

    table = Table(title="Known models, built from their settings")
    for column in ("preset", "kind", "parts", "parameters", "GFLOPs"):
        table.add_column(column, justify="right" if column in ("parameters", "GFLOPs") else "left")
    for name, known in PRESETS.items():
        config = resolve_recipe({"model": {"preset": name}}).model
        with torch.device("meta"):
            model = config.build(**known.sizes)
        built = sum(parameter.numel() for parameter in model.parameters())
        assert built == config.num_params(**known.sizes)
        parts = f"{config.depth} × {config.width}, {config.heads} heads, {config.position.kind}, {config.norm.kind} norm "
        parts += f"{config.norm_place}, {config.feedforward.kind} feed-forward"
        table.add_row(name, config.kind, parts, f"{built:,}", f"{config.flops(**known.work) / 1e9:,.1f}")
    Console().print(table)
