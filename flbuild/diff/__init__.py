"""What differs between two images, recipes or locks."""
