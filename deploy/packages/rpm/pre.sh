# While a unit with DynamicUser= runs, its user is known already and cannot be made.
if [ -d /run/systemd/system ] && systemctl --quiet is-active berth.service &&
    [ "$(systemctl show --property=DynamicUser --value berth.service)" = yes ]; then
    echo "berth: a berth.service with DynamicUser= is running. Stop it first: systemctl stop berth" >&2
    exit 1
fi
# The files of the package belong to this user. sysusers.d has the same one.
getent group berth >/dev/null || groupadd --system berth
getent passwd berth >/dev/null ||
    useradd --system --gid berth --home-dir /var/lib/berth --no-create-home --shell /sbin/nologin \
        --comment "Berth, a resource placement service" berth
exit 0
