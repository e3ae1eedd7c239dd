"""What runs inside an image while a rendered Dockerfile builds it; copied into the context, never imported."""
