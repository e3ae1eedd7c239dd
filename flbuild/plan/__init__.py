"""Plans: what an image will be made of, from a recipe and its lock entry."""
