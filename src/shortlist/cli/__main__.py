"""``python -m shortlist.cli``: the program, for launchers that start a module (``torchrun``, ``accelerate launch``)."""

from shortlist.cli.program import main

if __name__ == "__main__":
    main()
