"""`python -m harness` is `dlrmbench`."""

from harness.cli import main

if __name__ == "__main__":
    main()
