"""``python -m shortlist``: the program, if the command ``shortlist`` is not on the path."""

from shortlist.cli import main

if __name__ == "__main__":
    main()
