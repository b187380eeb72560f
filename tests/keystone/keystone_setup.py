"""Make the tables, the keys and the administrator of a new Keystone.

As three calls of keystone-manage, in one process: loading it takes longer than
what it does. FOLDER has keystone.conf; the password is read from the input.
"""

import os
import sys

from keystone.cmd import cli
from oslo_config import cfg


def main() -> None:
    folder = sys.argv[1]
    password = sys.stdin.read()
    os.environ["OS_KEYSTONE_CONFIG_DIR"] = folder
    for arguments in (
        ["db_sync"],
        ["fernet_setup", "--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid())],
        # As one word: the password may begin with a dash.
        ["bootstrap", f"--bootstrap-password={password}"],
    ):
        # Else there is no second set of arguments in one process.
        cfg.CONF.reset()
        cli.main(["keystone-manage", "--config-dir", folder, *arguments])


if __name__ == "__main__":
    main()
