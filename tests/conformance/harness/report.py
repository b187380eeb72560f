"""The line every runner ends with, and the exit status that belongs to it."""


def finish(passed: int, failed: int, skipped: int) -> int:
    """Print the totals as the last line; return the process's exit status."""
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 0 if failed == 0 and passed > 0 else 1
