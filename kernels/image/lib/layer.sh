# A template's layer: what its template.conf asks for, over the root of its base. Everything is fetched before
# anything foreign runs, and what runs has no network. Sourced; needs common.sh, apt.sh, roots.sh, template.sh.

# Raised by hand when the same template.conf is put together in another way.
LAYER_RECIPE=1
LAYER_CONF='BASE PACKAGES PIP WHEELS NPM FILES SETUP'

# layer_key [N]: of the first N layers, or of all.
layer_key() {
	local n=${1:-${#LAYERS[@]}} dir key path paths
	[ "$n" -gt 0 ] || { base_key; return; }
	dir=${LAYERS[n - 1]}
	{ echo "$LAYER_RECIPE"
	  layer_key $((n - 1))
	  for key in $LAYER_CONF; do echo "$key=$(conf_value "$dir" "$key")"; done
	  paths=()
	  for key in PIP WHEELS FILES SETUP; do
		path=$(conf_value "$dir" "$key")
		[ -z "$path" ] || paths+=("$path")
	  done
	  [ "${#paths[@]}" -eq 0 ] || hash_files "$dir" "${paths[@]}"; } | hash_text
}

# layer_file PATH: that file of the uppermost layer that has it.
layer_file() {
	local root
	for root in ${LAYER_ROOTS//:/ }; do
		[ ! -e "$root$1" ] || { printf '%s\n' "$root$1"; return; }
	done
	die "no layer has $1"
}

# --- fetching ---

# bytes_of URL…: what they have together, by the servers' word.
bytes_of() {
	local urls=("$@")
	printf 'url = "%s"\n' "${urls[@]}" | curl -sSIL --fail -K - -o /dev/null -w '%header{content-length}\n' 2>/dev/null |
		awk '{ total += $1 } END { print int(total) }' || echo 0
}

announce() { # announce TITLE COUNT BYTES
	say "$1: $2 packages, $(($3 / 1000000)).$((($3 / 100000) % 10)) MB to fetch"
}

layer_apt_options() {
	APT_LAYER=("${APT_OPTIONS[@]}" -o "Dir::State::status=$(layer_file /var/lib/dpkg/status)" -o "Dir::Cache::archives=$CACHE/debs/")
}

packages_fetch() {
	local uris
	apt_refresh
	layer_apt_options
	mkdir -p "$CACHE/debs/partial"
	uris=$(apt-get "${APT_LAYER[@]}" install -y -qq --print-uris "$@" 2>&1) || {
		printf '%s\n' "$uris" | tail -n 5 >&2
		die "$LAYER_TITLE: apt finds no way to install $*"
	}
	announce "$LAYER_TITLE" "$(grep -c "^'" <<<"$uris" || true)" "$(awk "/^'/ { total += \$3 } END { print int(total) }" <<<"$uris")"
	run_long "$LAYER_TITLE, fetching packages" apt-get "${APT_LAYER[@]}" install -y -qq --download-only "$@"
}

packages_install() {
	run_long "$LAYER_TITLE, installing packages" "$IMAGE_DIR/layer-enter" --bind "$CACHE/debs:debs" \
		--bind "$APT_DIR/lists:lists" --bind "$APT_DIR/sources.list:sources.list" "$LAYER_ROOTS" "$ENTRY_TMP" -- \
		apt-get -o Dir::State::lists=/run/build/lists -o Dir::Cache=/tmp -o Dir::Cache::archives=/run/build/debs \
		-o Dir::Etc::sourcelist=/run/build/sources.list -o Dir::Etc::sourceparts=/nonexistent -o Debug::NoLocking=true \
		-o APT::Install-Recommends=false -o APT::Sandbox::User=root -o Acquire::Languages=none \
		-o APT::Keep-Downloaded-Packages=true -o Dpkg::Use-Pty=0 --no-download -y -qq install "$@"
}

# The host's own settings of pip: index, proxy, certificates.
pip_settings() {
	local name file
	PIP_HOST=()
	for name in $(compgen -e | grep -E '^(PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|DEFAULT_TIMEOUT|RETRIES)|(https?|no|all)_proxy|(HTTPS?|NO|ALL)_PROXY)$'); do
		PIP_HOST+=(--env "$name=${!name}")
	done
	for file in "${PIP_CONFIG_FILE:-}" /root/.config/pip/pip.conf /root/.pip/pip.conf /etc/pip.conf; do
		[ -n "$file" ] && [ -f "$file" ] || continue
		PIP_HOST+=(--bind "$file:pip.conf" --env PIP_CONFIG_FILE=/run/build/pip.conf)
		break
	done
	PIP_HOST+=(--bind /etc/ssl/certs/ca-certificates.crt:ca.crt --env PIP_CERT=/run/build/ca.crt)
}

# Wheels only: to unpack one runs nothing of its maker's, to build one would.
wheels_fetch() { # wheels_fetch DIR REQUIREMENTS
	local dir=$1 wheels=$ENTRY_TMP/wheels recipe report urls
	recipe=(--bind "$dir:recipe")
	pip_settings
	mkdir -p "$wheels" "$CACHE/pip"
	report=$wheels/report.json
	run_long "$LAYER_TITLE, resolving $2" "$IMAGE_DIR/layer-enter" --net "${recipe[@]}" "${PIP_HOST[@]}" \
		--write "$wheels:wheels" --write "$CACHE/pip:cache" "$LAYER_ROOTS" "$ENTRY_TMP" -- \
		python3 -m pip install --dry-run --quiet --break-system-packages --only-binary :all: --cache-dir /run/build/cache \
		$(wheels_here "$dir") --report /run/build/wheels/report.json -r "/run/build/recipe/$2"
	mapfile -t urls < <(jq -r '.install[].download_info.url | select(test("^https?:"))' "$report")
	jq -r '.install[].metadata | .name + "==" + .version' "$report" >"$wheels/exact.txt"
	announce "$LAYER_TITLE, Python" "$(wc -l <"$wheels/exact.txt")" "$([ "${#urls[@]}" -eq 0 ] && echo 0 || bytes_of "${urls[@]}")"
	[ -s "$wheels/exact.txt" ] || return 0
	run_long "$LAYER_TITLE, fetching wheels" "$IMAGE_DIR/layer-enter" --net "${recipe[@]}" "${PIP_HOST[@]}" \
		--write "$wheels:wheels" --write "$CACHE/pip:cache" "$LAYER_ROOTS" "$ENTRY_TMP" -- \
		python3 -m pip download --no-deps --only-binary :all: --cache-dir /run/build/cache $(wheels_here "$dir") \
		-d /run/build/wheels -r /run/build/wheels/exact.txt
}

# pip's option for the template's own folder of wheels.
wheels_here() {
	local folder
	folder=$(conf_value "$1" WHEELS)
	[ -z "$folder" ] || printf '%s\n' "--find-links=/run/build/recipe/$folder"
}

# wheels_install DIR FOLDER WHAT…: into /usr/local, for everybody.
wheels_install() {
	local dir=$1
	shift
	run_long "$LAYER_TITLE, installing wheels" "$IMAGE_DIR/layer-enter" --bind "$dir:recipe" \
		--bind "$ENTRY_TMP/wheels:wheels" "$LAYER_ROOTS" "$ENTRY_TMP" -- \
		python3 -m pip install --no-index --no-cache-dir --break-system-packages --root-user-action=ignore \
		--find-links /run/build/wheels $(wheels_here "$dir") "$@"
}

wheels_build() {
	local dir=$1 list folder names
	list=$(conf_value "$dir" PIP) folder=$(conf_value "$dir" WHEELS)
	mkdir -p "$ENTRY_TMP/wheels"
	if [ -n "$list" ]; then
		wheels_fetch "$dir" "$list"
		[ ! -s "$ENTRY_TMP/wheels/exact.txt" ] || wheels_install "$dir" -r /run/build/wheels/exact.txt
	elif [ -n "$folder" ]; then
		mapfile -t names < <(cd "$dir" && find "$folder" -name '*.whl' -printf '/run/build/recipe/%p\n' | sort)
		[ "${#names[@]}" -gt 0 ] || conf_fault "$dir" "WHEELS=$folder holds no wheel (*.whl)."
		wheels_install "$dir" "${names[@]}"
	fi
	rm -rf "$ENTRY_TMP/wheels"
}

# npm of the host fetches, and runs none of the packages' own scripts.
npm_build() {
	local stage=$ENTRY_TMP/npm urls
	need_programs npm
	mkdir -p "$stage/plan" "$stage/made"
	run_long "$LAYER_TITLE, resolving npm packages" npm install --prefix "$stage/plan" --package-lock-only --ignore-scripts \
		--no-audit --no-fund --cache "$CACHE/npm" "$@"
	mapfile -t urls < <(jq -r '.packages[].resolved // empty | select(test("^https?:"))' "$stage/plan/package-lock.json")
	announce "$LAYER_TITLE, npm" "$(jq '.packages | length - 1' "$stage/plan/package-lock.json")" \
		"$([ "${#urls[@]}" -eq 0 ] && echo 0 || bytes_of "${urls[@]}")"
	run_long "$LAYER_TITLE, fetching npm packages" npm install --global --prefix "$stage/made" --ignore-scripts --no-audit \
		--no-fund --cache "$CACHE/npm" "$@"
	mkdir -p "$ENTRY_TMP/root/usr/local/lib" "$ENTRY_TMP/root/usr/local/bin"
	cp -a "$stage/made/lib/node_modules" "$ENTRY_TMP/root/usr/local/lib/"
	[ ! -d "$stage/made/bin" ] || cp -a "$stage/made/bin/." "$ENTRY_TMP/root/usr/local/bin/"
	chown -R 0:0 "$ENTRY_TMP/root/usr/local/lib/node_modules"
	rm -rf "$stage"
}

# --- one layer ---

setup_run() {
	run_long "$LAYER_TITLE, SETUP" "$IMAGE_DIR/layer-enter" --bind "$1:recipe" "$LAYER_ROOTS" "$ENTRY_TMP" -- \
		sh -c 'cd /run/build/recipe && if [ -x "$1" ]; then exec "./$1"; else exec sh "./$1"; fi' sh "$2"
}

# files_lay DIR FOLDER: through the overlay, so that a link of the base's (/bin) is followed as in the finished root.
files_lay() {
	run_long "$LAYER_TITLE, FILES" "$IMAGE_DIR/layer-enter" --bind "$1:recipe" "$LAYER_ROOTS" "$ENTRY_TMP" -- \
		sh -c 'tar -C "/run/build/recipe/$1" --owner=0 --group=0 --mode="u=rwX,go=rX" -cf - . |
			tar -C / --keep-directory-symlink -xpf - &&
			if [ -d /home/user ]; then chown -R 1000:1000 /home/user; fi' sh "$2"
}

# Bytecode for what is new, so that the first import in a sandbox compiles nothing, and what pip is told is there.
layer_finish() {
	(cd "$ENTRY_TMP/root" && find . -path '*/dist-packages/*.py' -printf '/%P\n') >"$ENTRY_TMP/new"
	run_long "$LAYER_TITLE, last steps" "$IMAGE_DIR/layer-enter" --bind "$ENTRY_TMP/new:new" "$LAYER_ROOTS" "$ENTRY_TMP" -- sh -c '
		python3 -m compileall -q -i /run/build/new >/dev/null 2>&1 || true
		mkdir -p /usr/lib/carrel/distributions
		for info in /usr/lib/python3/dist-packages/*-info; do
			name=${info##*/} name=${name%.*-info}
			version=${name#*-}
			printf "%s\n" "${version%%-*}" >"/usr/lib/carrel/distributions/$(printf %s "${name%%-*}" | tr A-Z_. a-z--)"
		done
		rm -rf /var/log/apt /var/log/*.log /var/cache/apt/*.bin /root/.cache /var/cache/debconf/*-old /var/lib/dpkg/*-old'
}

layer_steps() {
	local dir=$1 packages npm files setup
	packages=$(conf_value "$dir" PACKAGES) npm=$(conf_value "$dir" NPM)
	files=$(conf_value "$dir" FILES) setup=$(conf_value "$dir" SETUP)
	[ -z "$npm" ] || packages="$packages nodejs"
	if [ -n "$packages" ]; then
		packages_fetch $packages
		packages_install $packages
	fi
	wheels_build "$dir"
	[ -z "$npm" ] || npm_build $npm
	[ -z "$files" ] || files_lay "$dir" "$files"
	[ -z "$setup" ] || setup_run "$dir" "$setup"
	layer_finish
}

layer_pack() {
	run_long "$LAYER_TITLE, file system" "${CONFINED[@]}" sh -c 'mkdir -p "$2/merged" &&
		mount -t overlay -o "ro,index=off,redirect_dir=off,lowerdir=$2/root:$1" overlay "$2/merged" &&
		exec "$3" "$2/merged" "$2/rootfs.ext4"' sh "$LAYER_ROOTS" "$ENTRY_TMP" "$IMAGE_DIR/make-rootfs"
	file_sha256 "$ENTRY_TMP/rootfs.ext4" >"$ENTRY_TMP/rootfs.sha256"
	rm -rf "$ENTRY_TMP/work" "$ENTRY_TMP/merged" "$ENTRY_TMP/new"
}

# layer_build: sets LAYER, the cache's entry of the uppermost, and LAYER_ROOTS, all roots from it down.
layer_build() {
	local n key
	LAYER=$BASE LAYER_ROOTS=$BASE/root
	for ((n = 1; n <= ${#LAYERS[@]}; n++)); do
		key=$(layer_key "$n")
		LAYER_TITLE="template $([ "$n" -eq "${#LAYERS[@]}" ] && echo "$RECIPE_NAME" || basename "${LAYERS[n - 1]}")"
		if [ ! -d "$CACHE/layers/$key" ]; then
			entry_begin layers
			mkdir -m 755 "$ENTRY_TMP/root"
			layer_steps "${LAYERS[n - 1]}"
			layer_pack
			entry_publish layers "$key"
		fi
		LAYER=$CACHE/layers/$key
		LAYER_ROOTS=$LAYER/root:$LAYER_ROOTS
	done
}
