#!/usr/bin/env bash
# Plays the scenarios of passing.txt against the program over TLS with replay.py, the tool that came with the recordings:
#
#     just replay path/to/replay.py [replay.py's options, such as --show 20]
#
# The program is built first, and started once for each profile, with a token for the user of the recordings.
set -euo pipefail

tool=${1:?usage: replay.sh path/to/replay.py [options]}
shift
folder=$(cd "$(dirname "$0")" && pwd)
cargo build --quiet -p kube-apiserver-embedded
program=${CARGO_TARGET_DIR:-$folder/../../../../target}/debug/kube-apiserver-embedded
scratch=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$scratch"
}
trap finish EXIT

# The two folders that were recorded beside controllers, and the others.
while read -r name; do
    case $name in
    gc/* | namespaces/*) profile=dev ;;
    *) profile=envtest ;;
    esac
    mkdir -p "$scratch/$profile/${name%/*}"
    cp "$folder/transcripts/$name.json" "$scratch/$profile/$name.json"
done < <(grep -v -e '^#' -e '^$' "$folder/passing.txt")

echo 'replay,admin,u-admin,system:masters' >"$scratch/tokens.csv"
failed=0
for profile in envtest dev; do
    mkfifo "$scratch/$profile.out"
    "$program" --tls --profile "$profile" --token-auth-file "$scratch/tokens.csv" \
        --kubeconfig-out "$scratch/kubeconfig" >"$scratch/$profile.out" &
    server=$!
    read -r _ url <"$scratch/$profile.out"
    sed -n 's/^ *certificate-authority-data: //p' "$scratch/kubeconfig" | base64 -d >"$scratch/ca.crt"
    printf 'profile %s\n' "$profile"
    python3 "$tool" --server "$url" --token replay --ca "$scratch/ca.crt" "$@" "$scratch/$profile" || failed=1
    kill "$server"
    wait "$server"
    server=
done
exit "$failed"
