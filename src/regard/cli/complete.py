"""What the shell completes: names of recipes, and settings; without torch, as a key press waits for it."""

from pathlib import Path


def complete_recipe(incomplete: str) -> list[str]:
    """The recipes that come with regard, recipes that lie here, and folders on the way to others."""
    return [*_here(incomplete, ".toml"), *complete_shipped(incomplete)]


def _here(incomplete: str, suffix: str) -> list[str]:
    """Files whose names end so, and folders."""
    folder, slash, begun = incomplete.rpartition("/")
    try:
        entries = sorted(Path(folder + slash or ".").iterdir())
    except OSError:
        return []
    shown = [entry for entry in entries if begun.startswith(".") or not entry.name.startswith(".")]
    fits = [
        entry for entry in shown if entry.name.startswith(begun) and (entry.is_dir() or entry.name.endswith(suffix))
    ]
    return [f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}" for entry in fits]


def complete_shipped(incomplete: str) -> list[str]:
    """The recipes that come with regard."""
    from regard.config.shipped import shipped

    return [name for name in shipped() if name.startswith(incomplete)]


def complete_data(incomplete: str) -> list[str]:
    """Files, recipes among them, and the recipes that come with regard."""
    return [*_here(incomplete, ""), *complete_shipped(incomplete)]


def complete_setting(incomplete: str) -> list[str]:
    """The settings that people change most: those that other programs have too."""
    from regard.config.synonyms import PATHS

    return [f"{path}=" for path in PATHS if path.startswith(incomplete)]


def complete_path(incomplete: str) -> list[str]:
    """The same without the sign."""
    return [setting.removesuffix("=") for setting in complete_setting(incomplete)]


def complete_recipe_or_setting(incomplete: str) -> list[str]:
    """Both, where both may stand."""
    return [*complete_recipe(incomplete), *complete_setting(incomplete)]
