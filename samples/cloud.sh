#!/bin/sh
# Makes the cloud of the README: 40 hosts of 32 processors, each with a GPU, and the instances on them.
#
#   make run                  # in another terminal
#   make cloud                # or: samples/cloud.sh http://host:port
#
# Needs curl and awk.
set -eu

url=${1:-http://127.0.0.1:8778}
token=${BERTH_TOKEN:-admin}

fail() {
    printf 'cloud.sh: %s\n' "$*" >&2
    exit 1
}

# The allocations of the last instance. They are written last, with all others.
held=$(curl --silent --show-error --fail --max-time 30 --header "X-Auth-Token: $token" \
    "$url/allocations/de300000-0000-4000-8000-000000003900") ||
    fail "no answer from $url; is the server running? Start one with: make run"
case $held in
*VCPU*)
    echo "The 40 hosts are there already."
    exit 0
    ;;
esac

# One curl sends all requests, as awk writes them down.
awk -v url="$url" -v token="$token" -f /dev/stdin <<'END' | curl --fail-early --config - || fail "a request was refused"
# A request of curl. Names and texts of the body stand between single quotes.
function send(method, path, body) {
    gsub(/'/, "\\\"", body)
    if (sent++) print "next"
    print "silent\nshow-error\nfail\noutput = /dev/null"
    print "request = " method "\nurl = \"" url path "\""
    print "header = \"X-Auth-Token: " token "\""
    print "header = \"OpenStack-API-Version: placement 1.39\""
    print "header = \"Content-Type: application/json\""
    print "data = \"" body "\""
}

function provider(name, uuid, parent, inventories) {
    send("POST", "/resource_providers", "{'name': '" name "', 'uuid': '" uuid "'" parent "}")
    send("PUT", "/resource_providers/" uuid "/inventories", \
        "{'resource_provider_generation': 0, 'inventories': {" inventories "}}")
}

# An instance, to be written with all others.
function instance(uuid, project, allocations) {
    instances = instances (instances ? ", " : "") "'" uuid "': {'allocations': {" allocations "}, " \
        "'project_id': '" project "', 'user_id': 'somebody', 'consumer_type': 'INSTANCE', 'consumer_generation': null}"
}

BEGIN {
    split("red green blue", projects)
    # The processors that are free on each host.
    hosts = split("5 3 7 12 2 4 6 1 5 0 7 4 2 6 3 5 1 7 0 4 3 9 2 5 1 2 6 3 0 7 1 4 5 2 6 6 3 1 0 4", free)
    for (n = 0; n < hosts; n++) {
        name = sprintf("host-%02d", n)
        host = sprintf("5a1f0000-0000-0000-0000-%012x", n + 1)
        gpu = sprintf("9b0f0000-0000-0000-0000-%012x", n + 1)
        provider(name, host, "", "'VCPU': {'total': 32}, 'MEMORY_MB': {'total': 131072, 'reserved': 4096}")
        provider(name "_gpu0", gpu, ", 'parent_provider_uuid': '" host "'", "'VGPU': {'total': 8}")
        send("PUT", "/resource_providers/" host "/traits", "{'resource_provider_generation': 1, " \
            "'traits': ['HW_CPU_X86_AVX2'" (n % 5 ? "" : ", 'HW_CPU_X86_AVX512F'") "]}")
        used = 32 - free[n + 1]
        virtual_gpus = (3 * n + 5) % 8
        for (i = 0; used > 0; i++) {
            size = used < 8 ? used : 8
            used -= size
            allocations = "'" host "': {'resources': {'VCPU': " size ", 'MEMORY_MB': " 3072 * size "}}"
            if (i == 0 && virtual_gpus)
                allocations = allocations ", '" gpu "': {'resources': {'VGPU': " virtual_gpus "}}"
            instance(sprintf("de300000-0000-4000-8000-00000000%02d%02d", n, i), projects[1 + (n + i) % 3], allocations)
        }
    }
    send("POST", "/allocations", "{" instances "}")
}
END
echo "$url has 40 hosts now."
