"""Recipes: model, loading with places, checks across fields, canonical hash, schema."""
