"""Where wheels and sources come from: named package indexes, find-links folders, git repositories."""
