# Where Debian comes from: the host's own apt settings, or MIRROR.
# A private apt state in the cache tells sizes before anything large is fetched.

APT_DIR=$CACHE/apt

# mirror_find: the first repository of the host whose address ends like Debian's, and its
# security updates; MIRROR stands for both where it is called as usual.
mirror_find() {
	local host
	host=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | sed 's,/*$,,' || true)
	MAIN=${MIRROR:-$(grep -m 1 '/debian$' <<<"$host" || true)}
	MAIN=${MAIN%/}
	[ -n "$MAIN" ] || die "no Debian mirror in the host's apt settings: set MIRROR to one"
	SECURITY=$(grep -m 1 '/debian-security$' <<<"$host" || true)
	if [ -n "${MIRROR:-}" ] && [ "${MAIN%/debian}" != "$MAIN" ]; then
		SECURITY=${MAIN}-security
	fi
	[ -f "$KEYRING" ] || die "$KEYRING is missing: run conf/packages/install"
}

# sources_print: sources.list lines for the guest's suite.
sources_print() {
	printf 'deb [signed-by=%s] %s %s main\n' "$KEYRING" "$MAIN" "$SUITE" "$KEYRING" "$MAIN" "$SUITE-updates"
	if [ -n "$SECURITY" ]; then
		printf 'deb [signed-by=%s] %s %s main\n' "$KEYRING" "$SECURITY" "$SUITE-security"
	else
		say "no security mirror in the host's apt settings: building without security updates"
	fi
}

# acquire_options: the host's proxy and fetch settings, as lines of apt.conf.
acquire_options() {
	apt-config dump | grep -E '^Acquire::(https?|ftp|Check-|Max-|Retries|Force)[^ ]* "[^"]' || true
}

# For apt-get and apt-cache: only that state, and one source.
APT_OPTIONS=(
	-o "Dir::State=$APT_DIR" -o "Dir::State::status=$APT_DIR/status"
	-o "Dir::Etc::sourcelist=$APT_DIR/sources.list" -o Dir::Etc::sourceparts=/nonexistent
	-o "Dir::Cache=$APT_DIR" -o APT::Architecture=amd64 -o Acquire::Languages=none
	-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
	-o APT::Update::Post-Invoke-Success::= -o APT::Install-Recommends=false
	-o APT::Sandbox::User=root
)

# apt_refresh: once in a build, and only in one that must fetch something.
apt_refresh() {
	[ -z "${APT_FRESH:-}" ] || return 0
	mirror_find
	mkdir -p "$APT_DIR/lists/partial" "$APT_DIR/archives/partial" "$CACHE/debs"
	: >"$APT_DIR/status"
	sources_print >"$APT_DIR/sources.list"
	run_long "package lists" apt-get "${APT_OPTIONS[@]}" update
	APT_FRESH=1
}

# apt_announce TITLE PACKAGE...: says how much has to be fetched, before it is.
apt_announce() {
	local title=$1 uris
	shift
	apt_refresh
	uris=$(apt-get "${APT_OPTIONS[@]}" install -y -qq --print-uris "$@") ||
		die "$title: apt finds no way to install its packages from $MAIN"
	printf '%s\n' "$uris" | (
		total=0 count=0
		while read -r _ name size _; do
			[ -n "${size:-}" ] && [ ! -f "$CACHE/debs/$name" ] || continue
			total=$((total + size)) count=$((count + 1))
		done
		say "$title: $count packages, $((total / 1000000)) MB to fetch"
	)
}

# debootstrap_root TITLE ROOT VARIANT PACKAGES OPTION...: a root from packages (comma-separated).
# Fetched packages stay in the cache, so that a changed list fetches only what is new.
debootstrap_root() {
	local title=$1 root=$2 variant=$3 packages=$4
	shift 4
	acquire_options >"$APT_DIR/acquire.conf"
	run_long "$title" "${CONFINED[@]}" mmdebstrap --mode=root --variant="$variant" --architectures=amd64 \
		--aptopt="$APT_DIR/acquire.conf" --aptopt='APT::Install-Recommends "false"' \
		--aptopt='Acquire::Languages "none"' --aptopt='APT::Sandbox::User "root"' \
		--skip=essential/unlink \
		--setup-hook="mkdir -p \"\$1/var/cache/apt/archives\" && cp -a '$CACHE/debs/.' \"\$1/var/cache/apt/archives/\"" \
		--essential-hook="cp -u \"\$1\"/var/cache/apt/archives/*.deb '$CACHE/debs/'" \
		--customize-hook="cp -u \"\$1\"/var/cache/apt/archives/*.deb '$CACHE/debs/'" \
		--include="$packages" "$@" "$SUITE" "$root" "$APT_DIR/sources.list"
	rm -f "$root/etc/apt/apt.conf.d/99mmdebstrap"
}
