#!/bin/sh
# A tour of the main job: describe a host, request candidates, claim one, see the usage.
#
#   berth serve &             # or: make run
#   samples/tour.sh           # or: samples/tour.sh http://host:port
#
# Prints each command and its response, and stops at the first unexpected response. Needs
# curl. It can be run repeatedly: it first removes the objects of a previous run, and uses names that no
# real deployment has.
set -eu

url=${1:-http://127.0.0.1:8778}
token=${BERTH_TOKEN:-admin}
provider=7041a000-5e1f-4c2d-8b3a-90d7c6e5f412
room=7041a001-5e1f-4c2d-8b3a-90d7c6e5f412
instance=7041a002-5e1f-4c2d-8b3a-90d7c6e5f412
project=tour
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

if [ -t 1 ]; then
    bold=$(printf '\033[1m') plain=$(printf '\033[0m')
else
    bold='' plain=''
fi

say() {
    printf '\n%s# %s%s\n' "$bold" "$*" "$plain"
}

# call STATUS METHOD PATH [BODY]: sends it, prints it, and insists on one of the statuses (200|204).
call() {
    wanted=$1 method=$2 path=$3 body=${4-}
    printf "$ curl -X %s '%s%s' \\\\\n" "$method" "$url" "$path"
    printf "    -H 'X-Auth-Token: %s' -H 'OpenStack-API-Version: placement 1.39'" "$token"
    if [ -n "$body" ]; then
        printf " \\\\\n    -H 'Content-Type: application/json' -d '%s'" "$body"
    fi
    printf '\n'
    status=$(curl --silent --show-error --max-time 30 --output "$answer" --write-out '%{http_code}' \
        --request "$method" \
        --header "X-Auth-Token: $token" \
        --header 'OpenStack-API-Version: placement 1.39' \
        ${body:+--header 'Content-Type: application/json' --data "$body"} \
        "$url$path") || fail "no answer from $url; is the server running? Start one with: berth serve"
    printf '%s' "$status"
    if [ -s "$answer" ]; then
        printf ' %s' "$(cat "$answer")"
    fi
    printf '\n'
    case "|$wanted|" in
        *"|$status|"*) ;;
        *) fail "expected status $wanted" ;;
    esac
}

# expect TEXT: the last response must contain it; spaces are ignored.
expect() {
    tr -d ' \n' <"$answer" | grep --quiet --fixed-strings -- "$1" || fail "expected in the answer: $1"
}

fail() {
    printf 'tour.sh: %s\n' "$*" >&2
    exit 1
}

say "Who is there? No token is needed for this."
call 200 GET /
expect '"min_version":"1.0"'

say "Take away what an earlier tour has left"
call '204|404' DELETE "/allocations/$instance"
call '204|404' DELETE "/resource_providers/$provider"

say "A host, as a resource provider"
call 200 POST /resource_providers "{\"name\": \"tour-host\", \"uuid\": \"$provider\"}"
expect '"generation":0'

say "What it has: 16 processors that may be sold 4 times, and 64 GiB of memory of which 2 are kept"
call 200 PUT "/resource_providers/$provider/inventories" '{"resource_provider_generation": 0, "inventories": {
  "VCPU": {"total": 16, "allocation_ratio": 4.0, "max_unit": 16},
  "MEMORY_MB": {"total": 65536, "reserved": 2048}}}'
expect '"resource_provider_generation":1'

say "What it is like: a standard trait, and one of our own"
call '201|204' PUT /traits/CUSTOM_TOUR
call 200 PUT "/resource_providers/$provider/traits" \
    '{"resource_provider_generation": 1, "traits": ["HW_CPU_X86_AVX2", "CUSTOM_TOUR"]}'
expect '"resource_provider_generation":2'

say "Where it stands: an aggregate is any uuid that providers have in common"
call 200 PUT "/resource_providers/$provider/aggregates" \
    "{\"resource_provider_generation\": 2, \"aggregates\": [\"$room\"]}"
expect '"resource_provider_generation":3'

say "Where would 2 processors and 4 GiB fit, with that trait, in that aggregate?"
call 200 GET "/allocation_candidates?resources=VCPU:2,MEMORY_MB:4096&required=CUSTOM_TOUR&member_of=$room"
expect "\"allocation_requests\":[{\"allocations\":{\"$provider\":"
expect '"MEMORY_MB":4096'
expect '"capacity":64'

say "Claim it for an instance. Generation null says: nobody has claimed for it before"
claim="{\"allocations\": {\"$provider\": {\"resources\": {\"VCPU\": 2, \"MEMORY_MB\": 4096}}},
  \"consumer_generation\": null, \"consumer_type\": \"INSTANCE\", \"project_id\": \"$project\", \"user_id\": \"me\"}"
call 204 PUT "/allocations/$instance" "$claim"

say "The same claim again is refused: by now somebody has"
call 409 PUT "/allocations/$instance" "$claim"
expect 'placement.concurrent_update'

say "What the instance holds, how much of the host is used, and how much the project uses"
call 200 GET "/allocations/$instance"
expect '"consumer_generation":1'
call 200 GET "/resource_providers/$provider/usages"
expect '"VCPU":2'
expect '"MEMORY_MB":4096'
call 200 GET "/usages?project_id=$project"
expect '"INSTANCE":{'

say "More than there is: refused, and nothing changes"
call 409 PUT "/allocations/$room" "{\"allocations\": {\"$provider\": {\"resources\": {\"MEMORY_MB\": 60000}}},
  \"consumer_generation\": null, \"consumer_type\": \"INSTANCE\", \"project_id\": \"$project\", \"user_id\": \"me\"}"

say "Tidy up"
call 204 DELETE "/allocations/$instance"
call 204 DELETE "/resource_providers/$provider"
call 204 DELETE /traits/CUSTOM_TOUR

printf '\nThe tour is complete.\n'
