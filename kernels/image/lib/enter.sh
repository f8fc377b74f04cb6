# Entering a root: the file systems a Linux program expects, mounted below it.
# Only ever called inside a private mount namespace, so nothing has to be undone.

# root_mount ROOT: proc, sys, dev, run and tmp. Proc shows the caller's PID namespace.
root_mount() {
	local root=$1 node
	mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
	mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
	mount -t tmpfs -o nosuid,mode=755,size=1m dev "$root/dev"
	for node in null zero full random urandom tty; do
		: >"$root/dev/$node"
		mount --bind "/dev/$node" "$root/dev/$node"
	done
	mkdir "$root/dev/pts" "$root/dev/shm"
	mount -t devpts -o nosuid,noexec,newinstance,ptmxmode=666,mode=620,gid=5 devpts "$root/dev/pts"
	mount -t tmpfs -o nosuid,nodev,mode=1777 shm "$root/dev/shm"
	mount -t tmpfs -o nosuid,nodev,mode=755 run "$root/run"
	mount -t tmpfs -o nosuid,nodev,mode=1777 tmp "$root/tmp"
	ln -s pts/ptmx "$root/dev/ptmx"
	ln -s /proc/self/fd "$root/dev/fd"
	ln -s /proc/self/fd/0 "$root/dev/stdin"
	ln -s /proc/self/fd/1 "$root/dev/stdout"
	ln -s /proc/self/fd/2 "$root/dev/stderr"
}

# root_env: the environment inside says nothing about the host's.
root_env() {
	local home=$1
	shift
	env -i HOME="$home" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		LANG=C.UTF-8 TERM="${TERM:-dumb}" "$@"
}
