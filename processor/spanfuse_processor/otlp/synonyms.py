"""Words that mean the same, by a small embedding model that a package carries (extra `semantic`): nothing is downloaded.

A word stands for itself and for those whose static embeddings point nearly the same way. Opposites do so as well, more than
one would think, so the bound is high; and a word with a prefix that turns it into its opposite (`mount`, `unmount`) never
means the same. What is left is few and sure: `delete` and `remove`, `folder` and `directory`, `begin` and `start`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

from spanfuse_processor.errors import ConfigError

MIN_COSINE: Final = 0.55
"""Least cosine of two words that mean the same. Of 46 pairs of near synonyms 10 reach it, of 60 pairs of opposites and of
things of one kind (`add remove`, `get set`, `red blue`) none does: see docs/rules/near.md."""
_OPPOSITES: Final = ("un", "de", "dis", "in", "im", "non", "re", "ir")
_WORD: Final = re.compile(r"▁([a-z]{2,})\Z")


def load_synonyms() -> Callable[[str], str]:
    """A function that gives for a word the one word that stands for all with its meaning.

    Raises:
        ConfigError: the extra `semantic` is not installed.
    """
    try:
        import numpy as np
        import wordllama
    except ImportError:
        raise ConfigError(["detectors.near.semantic: needs the extra: pip install 'spanfuse[semantic]'"]) from None
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    tokens = sorted((i, found[1]) for token, i in model.tokenizer.get_vocab().items() if (found := _WORD.match(token)))
    words = [word for _, word in tokens]
    vectors = np.asarray(model.embedding[[i for i, _ in tokens]], dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rank = {word: i for i, word in enumerate(words)}

    @lru_cache(maxsize=16_384)
    def canonical(word: str) -> str:
        at = rank.get(word)
        if at is None:
            return word
        near = (words[i] for i in np.flatnonzero(vectors @ vectors[at] >= MIN_COSINE))
        return min((w for w in near if not _opposed(w, word)), key=rank.__getitem__)

    return canonical


def _opposed(a: str, b: str) -> bool:
    return any(a == prefix + b or b == prefix + a for prefix in _OPPOSITES)
