systemd-tmpfiles --create berth.conf >/dev/null 2>&1 || :
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
fi
if [ "$1" -eq 1 ] && command -v systemctl >/dev/null; then
    # What the administrator's presets say; by default, the service is not enabled.
    systemctl --no-reload preset berth.service berth.socket >/dev/null 2>&1 || :
fi
# A running service is not restarted: its database may have to be migrated first.
