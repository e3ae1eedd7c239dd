"""The page that tells people about an image, written from its recipe and lock."""
