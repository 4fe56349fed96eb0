"""``python -m shortlist``: the program, where its command is not on the path."""

from shortlist.cli import main

if __name__ == "__main__":
    main()
