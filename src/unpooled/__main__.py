"""So that `python -m unpooled` is the command."""

from unpooled.cli import main

if __name__ == "__main__":
    main()
