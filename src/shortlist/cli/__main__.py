"""``python -m shortlist.cli``: the program for launchers that start a module, as ``torchrun`` and ``accelerate launch`` do."""

from shortlist.cli.main import main

if __name__ == "__main__":
    main()
