"""Import from the reference's own databases, and compare both services over the API.

The reference fills its database by random requests. After the import, Berth must answer every read as
the reference does. Rows that only faults of old releases leave behind are written by SQL, and must all be
named in the report.
"""

import argparse
import sys

from harness import suites

import large
import sources
from changed_rows import Changed  # noqa: F401
from exporting import Exporting  # noqa: F401
from first_release import FirstRelease  # noqa: F401
from following import Finishing, Following, Interrupted  # noqa: F401
from large import Large  # noqa: F401
from measuring import measure
from moving_case import Berth
from odd_rows import Names, Odd  # noqa: F401
from resuming import Growing, Replacing, Resuming  # noqa: F401
from rights import Rights  # noqa: F401
from same import TheSame  # noqa: F401
from schemas import Schemas  # noqa: F401


def move_large_clouds() -> int:
    """Import a large cloud from MariaDB and from PostgreSQL, and compare all that both services answer."""
    found = []
    with Berth() as own:
        for name, source in (("MariaDB", sources.mariadb), ("PostgreSQL", sources.postgres)):
            own._cluster.create(name, "berth_template")
            found += large.moves(name, source, own._cluster.url(name))
            own._cluster.drop(name)
    return 1 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests/moving/run",
        description="Moves from OpenStack Placement to Berth, on SQLite, PostgreSQL and MariaDB.",
        epilog="The program tested is $BERTH_BIN, else what cargo built last.",
    )
    suites.add_option(parser)
    parser.add_argument(
        "--measure", type=int, nargs=2, metavar=("HOSTS", "INSTANCES"),
        help="import a cloud of that size from MariaDB instead, and print how long it took",
    )  # fmt: skip
    parser.add_argument(
        "--large", action="store_true",
        help="import 100,000 consumers from MariaDB and from PostgreSQL instead, and compare all answers: ten minutes",
    )  # fmt: skip
    chosen = parser.parse_args()
    if chosen.large:
        return move_large_clouds()
    if chosen.measure:
        return measure(*chosen.measure)
    return suites.run([sys.modules["__main__"]], chosen.k)


if __name__ == "__main__":
    sys.exit(main())
