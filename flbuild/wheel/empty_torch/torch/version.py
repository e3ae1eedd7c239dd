"""No accelerator of any vendor."""

cuda = None
hip = None
xpu = None
