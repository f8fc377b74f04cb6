# Guest kernel and guest programs.

KERNEL_PACKAGE=linux-image-cloud-amd64

kernel_key() {
	{ echo "$KERNEL_PACKAGE vmlinux.sha256$REFRESHED"
	  hash_files "$IMAGE_DIR" kernel-unpack modules; } | hash_text
}

# Everything that ends up in /usr/lib/carrel or among the image's own files, and how it gets there. How templates
# are built changes nothing in it.
GUEST_SOURCES=(Makefile kernels/{agent,bash,core,link,python}
	kernels/image/{files,init,sitecustomize.py,modules,lib/guest.sh,lib/image.sh})

guest_key() {
	{ chroot_key
	  base_key
	  hash_files "$REPO" "${GUEST_SOURCES[@]}" "conf/templates/$TEMPLATE_NAME"; } | hash_text
}

IN_BUILD_CHROOT=("$IMAGE_DIR/chroot" --build)

# The package's file alone: its dependencies are tools for booting a real machine.
kernel_build() {
	local key package
	key=$(kernel_key)
	KERNEL=$CACHE/kernel/$key
	[ ! -d "$KERNEL" ] || return 0
	apt_refresh
	package=$(apt-cache "${APT_OPTIONS[@]}" depends "$KERNEL_PACKAGE" | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p')
	[ -n "$package" ] || die "the mirror $MAIN has no $KERNEL_PACKAGE"
	say "guest kernel: $(($(apt-cache "${APT_OPTIONS[@]}" show "$package" | sed -n 's/^Size: //p' | head -n 1) / 1000000)) MB to fetch"
	entry_begin kernel
	# apt checks the file against the signed lists, also one that is there already.
	run_long "guest kernel, fetching" env -C "$CACHE/debs" apt-get "${APT_OPTIONS[@]}" download "$package"
	dpkg-deb -x "$(kernel_file "$package")" "$ENTRY_TMP/deb"
	run_long "guest kernel, unpacking" "${IN_BUILD_CHROOT[@]}" --bind "$ENTRY_TMP:/entry" -- \
		/src/kernels/image/kernel-unpack /entry
	file_sha256 "$ENTRY_TMP/vmlinux" >"$ENTRY_TMP/vmlinux.sha256"
	entry_publish kernel "$key"
}

kernel_file() {
	apt-get "${APT_OPTIONS[@]}" --print-uris download "$1" | awk -v dir="$CACHE/debs" '{ print dir "/" $2 }'
}

# A source that is edited meanwhile would end up under the hash of what it was before.
guest_compile() {
	local before=''
	GUEST_KEY=$(guest_key)
	while [ "$GUEST_KEY" != "$before" ]; do
		before=$GUEST_KEY
		run_long "guest programs" "${IN_BUILD_CHROOT[@]}" -- make --no-print-directory -j2 guest OUT=build/guest
		GUEST_KEY=$(guest_key)
	done
}

guest_build() {
	GUEST_KEY=$(guest_key)
	GUEST=$CACHE/guest/$GUEST_KEY
	[ ! -d "$GUEST" ] || return 0
	guest_compile
	GUEST=$CACHE/guest/$GUEST_KEY
	[ ! -d "$GUEST" ] || return 0
	entry_begin guest
	guest_install "$ENTRY_TMP/root"
	install -m 755 "$REPO/build/guest/carrel-init" "$ENTRY_TMP/init"
	entry_publish guest "$GUEST_KEY"
}

guest_install() {
	local root=$1 lib=$1/usr/lib/carrel spec language
	mkdir -p "$lib/kernels"
	install -m 755 "$REPO"/build/guest/carrel-{agent,python,bash} "$lib/"
	for spec in "$REPO"/kernels/*/kernel.json; do
		[ -f "$spec" ] || continue
		language=$(basename "$(dirname "$spec")")
		install -D -m 644 "$spec" "$lib/kernels/$language/kernel.json"
	done
	if compgen -G "$REPO/kernels/python/*.py" >/dev/null; then
		mkdir -p "$lib/python"
		install -m 644 "$REPO"/kernels/python/*.py "$lib/python/"
	fi
	files_install "$IMAGE_DIR/files" "$root"
	files_install "$TEMPLATE_DIR/files" "$root"
	python_install "$root"
	distributions_list "$root"
	run_long "guest programs, installing" "${IN_BUILD_CHROOT[@]}" --bind "$root:/guest" -- \
		sh -c 'strip --strip-debug /guest/usr/lib/carrel/carrel-*
			find /guest/usr/lib -name "*.py" | xargs -r python3 -m compileall -q -s /guest --invalidation-mode unchecked-hash'
}

# files_install FROM ROOT: a tree laid over the root as it is, owned by root.
files_install() {
	[ -d "$1" ] || return 0
	tar -C "$1" --owner=0 --group=0 --mode='u=rwX,go=rX' -cf - . | tar -C "$2" -xpf -
}

# distributions_list ROOT: what pip is told is installed, a file a name with the version in it:
# to look there a shell needs no program.
distributions_list() {
	local dir=$1/usr/lib/carrel/distributions entry name
	mkdir -p "$dir"
	for entry in "$BASE"/root/usr/lib/python3/dist-packages/*-info; do
		name=$(basename "${entry%.*-info}")
		# NAME-VERSION[-pyX.Y]; names compare in lower case, with - for _ and .
		printf '%s\n' "$(cut -d- -f2 <<<"$name")" >"$dir/$(cut -d- -f1 <<<"$name" | tr 'A-Z_.' 'a-z--')"
	done
}

# The hook that names the missing network goes where every interpreter, also one of a
# virtual environment, looks first.
python_install() {
	local dir
	for dir in "$BASE"/root/usr/lib/python3.[0-9]*; do
		[ -d "$dir" ] || continue
		install -D -m 644 "$IMAGE_DIR/sitecustomize.py" "$1/usr/lib/$(basename "$dir")/sitecustomize.py"
	done
}
