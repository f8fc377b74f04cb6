# Sourced by the wrappers in /usr/local/bin: is there a network, and what to say if not.
# Only what the shell has built in: starting a program costs tens of milliseconds here.

NO_NETWORK="This sandbox has no network: upload the file or wheel from outside (carrel cp, or PUT /v1/sandboxes/ID/files), or bake the package into the template."

# A network is a route; the loopback device has none in this table.
have_network() {
	{ read -r _ && read -r _; } 2>/dev/null </proc/net/route
}

no_network() {
	printf '%s\n' "$NO_NETWORK" >&2
}

# is_remote WORD: an address elsewhere, as a URL or as git's user@host:path.
is_remote() {
	case $1 in
	file://* | *://localhost | *://localhost[:/]* | *://127.* | *://\[::1\]* | *://0.0.0.0*) return 1 ;;
	*://*) return 0 ;;
	-* | /* | ./* | ../*) return 1 ;;
	*@*:*) return 0 ;;
	esac
	return 1
}
