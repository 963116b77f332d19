"""Makes `python -m unpooled` run the command."""

from unpooled.cli import main

if __name__ == "__main__":
    main()
