# Shared by the image scripts: messages, cache entries, hashes, long commands.
# Sourced, never run. Progress goes to stderr; stdout carries results only.

IMAGE_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
REPO=$(cd "$IMAGE_DIR/../.." && pwd)
CACHE=${CARREL_CACHE:-/var/cache/carrel}
SUITE=trixie
# When packages were last fetched anew although their lists had not changed (build --refresh); part of every key
# that says what was fetched.
REFRESHED=$(cat "$CACHE/refreshed" 2>/dev/null || true)
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# Paths of a checkout must not change what is built.
export LC_ALL=C.UTF-8
unset SOURCE_DATE_EPOCH PYTHONPATH PYTHONHOME MAKEFLAGS MAKELEVEL MFLAGS
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
umask 022

say() { printf 'image: %s\n' "$*" >&2; }
die() { printf 'image: %s\n' "$*" >&2; exit 1; }

need_root() {
	[ "$(id -u)" -eq 0 ] || die "building an image needs root (chroot and mounts): run it with sudo"
}

need_programs() {
	local p
	for p in "$@"; do
		command -v "$p" >/dev/null || die "the program $p is missing: run conf/packages/install"
	done
}

# hash_files ROOT PATH...: one hash over names, executable bits, links and bytes below the paths.
hash_files() {
	local root=$1
	shift
	(cd "$root" && {
		find "$@" -type l -printf 'link %p %l\n' | sort
		find "$@" -type f -perm -u+x -printf 'executable %p\n' | sort
		find "$@" -type f ! -name '*.pyc' -print0 | sort -z | xargs -0r sha256sum
	}) | hash_text
}

# Sixteen hex digits are plenty to tell a few cache entries apart and keep paths short.
hash_text() { sha256sum | cut -c1-16; }

# OpenSSL's is four times faster than coreutils' on a CPU with instructions for it.
file_sha256() { openssl dgst -sha256 -r "$1" | cut -d' ' -f1; }

# run_long TITLE PROGRAM...: runs it with its output in a log; tells the elapsed time every
# few seconds; on failure shows the log's end and keeps it. The program ends with this
# script, however that ends, and does not hold the lock.
run_long() {
	local title=$1 log start=$SECONDS told=$SECONDS line last='' rc
	shift
	mkdir -p "$CACHE/log"
	log=$CACHE/log/$(printf '%s' "$title" | tr -c 'a-z0-9' '-').log
	say "$title: started"
	coproc LONG { exec setpriv --pdeathsig KILL -- "$@" 2>&1 </dev/null {LOCK_FD}>&-; }
	local pid=$LONG_PID fd
	exec {fd}<&"${LONG[0]}"
	: >"$log"
	while true; do
		rc=0
		IFS= read -r -t 5 -u "$fd" line || rc=$?
		if [ "$rc" -eq 0 ]; then
			printf '%s\n' "$line" >>"$log"
			last=$line
		elif [ "$rc" -le 128 ]; then
			break
		fi
		if [ $((SECONDS - told)) -ge 5 ]; then
			told=$SECONDS
			say "$title: $((SECONDS - start)) s: ${last:0:90}"
		fi
	done
	exec {fd}<&-
	rc=0
	wait "$pid" || rc=$?
	if [ "$rc" -ne 0 ]; then
		tail -n 25 "$log" >&2
		die "$title failed with status $rc; the whole log is $log"
	fi
	say "$title: done in $((SECONDS - start)) s"
}

# entry_begin KIND: a scratch directory in the same file system as the cache's KIND.
entry_begin() {
	mkdir -p "$CACHE/$1"
	ENTRY_TMP=$(mktemp -d "$CACHE/$1/.tmp.XXXXXX")
	chmod 755 "$ENTRY_TMP"
}

# entry_publish KIND HASH: everything on disk first, then the name appears at once.
entry_publish() {
	sync -f "$ENTRY_TMP"
	mv -T "$ENTRY_TMP" "$CACHE/$1/$2"
	sync -f "$CACHE/$1"
	ENTRY_TMP=
}

entry_drop() {
	if [ -n "${ENTRY_TMP:-}" ]; then
		rm -rf --one-file-system "$ENTRY_TMP"
	fi
}

# One build at a time; what a killed one left half-made goes away here.
LOCK_FD=
cache_lock() {
	[ -z "$LOCK_FD" ] || return 0
	mkdir -p "$CACHE" || die "cannot make the cache directory $CACHE: set CARREL_CACHE to one that can be written"
	exec {LOCK_FD}>"$CACHE/lock"
	if ! flock -n "$LOCK_FD"; then
		say "another build is running: waiting for it"
		flock "$LOCK_FD"
	fi
	rm -rf --one-file-system "$CACHE"/*/.tmp.*
}

# Before a command: own mounts and processes, all of which end with the command.
CONFINED=(unshare --mount --propagation private --pid --fork --kill-child=KILL --mount-proc --)
