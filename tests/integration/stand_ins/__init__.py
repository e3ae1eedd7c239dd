"""Stand-ins for what the hardware recipes name and no test can reach; what is on PyPI is the real file.

`hardware` (a session fixture of `tests/integration/conftest.py`) is a checkout whose `ascend` and `cuda`
entries are locked against these, so `hardware.flbuild("image", "ascend", ...)` does what a user's command
does. The references stay as the recipes have them; one file of settings (FLBUILD_CONFIG) and one of git's
(GIT_CONFIG_GLOBAL) redirect them. Only FlagGems' commit is the stand-in's: a hash cannot be made up.

- `quay.io/ascend/vllm-ascend:v0.20.2rc1-a3`, an index: Python 3.11 in /usr/local/python3.11.15, torch and
  its family, torch-npu's published aarch64 wheel, triton-ascend, another numpy, and vllm and vllm-ascend as
  editable installs, one by a `.pth`, one by a finder, each with `direct_url.json` and a source tree.
- `docker.io/vllm/vllm-openai:v0.28.0-cu129`, an image: Python 3.12, torch, triton and vllm.
- The indexes `flagos` and `cann` with FlagTree, FlagGems and cann-shmem; FlagGems' repository by git daemon.

The config of the Ascend base says arm64; its programs are those of this machine, so that a Dockerfile's RUN
works without emulation. `python3.12` is Debian's 3.11 by
another name, and looks for packages where 3.12 does.

Which module makes what: `packages` wheels, `bases` images, `servers` the index and the daemon, `project` the
checkout.
"""
