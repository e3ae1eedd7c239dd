"""What runs inside an image while a rendered Dockerfile builds it: copied to contexts, never imported."""
