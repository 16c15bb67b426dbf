"""Texts as rows: weighed words (TF-IDF), or vectors by a sentence-transformers model on disk."""

from armillary.texts.embedding import embed_texts
from armillary.texts.weighed_words import WordWeights, tfidf_rows

__all__ = ["WordWeights", "embed_texts", "tfidf_rows"]
