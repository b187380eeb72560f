"""Compare services, and import over the API.

Run it by `tests/compare/run`, which prepares the Python environment first.
"""

import argparse
import sys

from harness import suites

import differences
import importing
import looking
import measuring


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests/compare/run",
        description="Compares services, and imports over the API.",
        epilog="The program tested is $BERTH_BIN, else what cargo built last.",
    )
    suites.add_option(parser)
    parser.add_argument(
        "--measure", nargs=3, metavar=("HOSTS", "INSTANCES", "CONSUMERS"),
        help="compare two servers with a cloud of that size instead, so many of the consumers one by one, "
        "then import it over the API, and print how long that took",
    )  # fmt: skip
    chosen = parser.parse_args()
    if chosen.measure:
        hosts, instances, consumers = chosen.measure
        return measuring.measure(int(hosts), int(instances), consumers)
    return suites.run([differences, importing, looking], chosen.k)


if __name__ == "__main__":
    sys.exit(main())
