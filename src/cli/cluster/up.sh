# A PostgreSQL server and a few hosts on it, in a folder of their own; all of it ends with this script.
set -eu
waiting=

programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
if [ -z "$programs" ]; then
    programs=$(dirname "$(command -v pg_ctl || true)")
fi
if ! [ -x "$programs/initdb" ]; then
    echo "PostgreSQL is not installed: its programs initdb and pg_ctl are needed, as the package" \
        "postgresql of Debian has them" >"$failure"
    exit 1
fi
# PostgreSQL refuses to run as root: in a namespace its user has another number.
as=
if [ "$(id -u)" = 0 ]; then
    as="unshare --user --map-user=1000 --map-group=1000 --"
fi
server() {
    (cd / && $as "$programs/pg_ctl" -D "$root/board" "$@" >/dev/null 2>&1)
}
end() {
    trap - EXIT
    [ -z "$waiting" ] || kill "$waiting" || true
    for home in "$root"/host-*; do
        [ -d "$home" ] || continue
        PROVOST_HOME=$home "$provost" shutdown --stop-all >/dev/null 2>&1 || true
    done
    server -m fast stop || true
}
trap end EXIT
trap 'exit 0' INT TERM HUP

# Agents run as the daemons' user, and could else use the board.
umask 077
od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$root/password"
(cd / && $as "$programs/initdb" -D "$root/board" -U provost -E UTF8 --locale=C.UTF-8 -A scram-sha-256 \
    --pwfile="$root/password" >"$root/initdb.log" 2>&1) || {
    tail -n 3 "$root/initdb.log" >"$failure"
    exit 1
}
cat >>"$root/board/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$root'
END
server -l "$root/server.log" -w start || {
    tail -n 3 "$root/server.log" >"$failure"
    exit 1
}

number=1
while [ "$number" -le "$hosts" ]; do
    home=$root/host-$number
    mkdir "$home"
    cat >"$home/config.toml" <<END
[engine]
url = "postgres://provost@localhost/postgres?host=$root"
password_file = "$root/password"
durability = "single"

[host]
name = "host-$number"
END
    # The first verb starts the daemon.
    PROVOST_HOME=$home "$provost" ps >/dev/null 2>"$failure" || exit 1
    number=$((number + 1))
done

echo "A board on PostgreSQL and $hosts hosts, in $root"
echo
PROVOST_HOME=$root/host-1 "$provost" hosts
echo
echo "In a git repository, tasks can be run by any of them:"
number=1
while [ "$number" -le "$hosts" ]; do
    echo "  PROVOST_HOME=$root/host-$number $provost run 'say hello' --executor fake"
    number=$((number + 1))
done
echo
echo "Ctrl-C stops all attempts and removes the folder."
sleep infinity &
waiting=$!
wait
