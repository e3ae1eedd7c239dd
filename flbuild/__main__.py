"""`python -m flbuild`: the same as the `flbuild` command."""

from flbuild.cli.app import main

main()
