if [ "$1" -eq 0 ] && command -v systemctl >/dev/null; then
    systemctl --no-reload disable --now berth.service berth.socket >/dev/null 2>&1 || :
fi
