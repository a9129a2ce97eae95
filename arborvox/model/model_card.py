"""The model card: what a checkpoint is, for who finds the folder without us."""

from arborvox.config import Recipe
from arborvox.model.asr import ASR
from arborvox.model.outputs import OUTPUTS
from arborvox.tokens.tokenizer import Tokenizer


def model_card(model: ASR, recipe: Recipe, tokenizer: Tokenizer) -> str:
    """Return the card as Markdown."""
    config = recipe.model
    languages = ", ".join(tokenizer.languages) or "not stated"
    rows = [
        ("Recipe", recipe.name),
        ("Languages", languages),
        ("Units", f"{len(tokenizer)} ({tokenizer.unit})"),
        ("Parameters", f"{sum(p.numel() for p in model.parameters()):,}"),
        ("Encoder", model.encoder.description),
        *model.encoder.card_rows(),
    ]
    if model.ctc is not None:
        rows.append(("CTC branch", OUTPUTS[config.ctc].title))
    if model.decoder is not None:
        rows.append(("Decoder", f"{config.decoder_layers} layers, {OUTPUTS[config.output].title}"))
    rows.append(("Input", model.encoder.input.description))
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"""# {recipe.name}: a speech recognizer made with Arborvox

| | |
| --- | --- |
{table}

`config.yaml` is the whole recipe, `tokens.json` the units with their counts by language,
`model.safetensors` the weights. Nothing in this folder is executed when it is loaded.

```python
from pathlib import Path
from arborvox.model.checkpoint import load_checkpoint

loaded = load_checkpoint(Path("."))
```

The model has heard only the languages and recording conditions above; measure it on your own
recordings before you rely on what it writes.
"""
