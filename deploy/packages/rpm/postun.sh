if [ "$1" -eq 0 ]; then
    # The package owns files and no directories.
    for directory in /usr/share/doc/berth /usr/share/licenses/berth /etc/berth; do
        if [ -d "$directory" ]; then
            find "$directory" -depth -type d -empty -delete
        fi
    done
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
fi
