# The image directory: rootfs.ext4, guest.ext4, scratch.ext4, vmlinux, initrd, manifest.json.

# GUEST_KEY is set once the guest programs of this run are there.
image_key() {
	{ if [ -n "${GUEST_KEY:-}" ]; then echo "$GUEST_KEY"; else guest_key; fi
	  kernel_key
	  [ "${#LAYERS[@]}" -eq 0 ] || { layer_key; recipe_print; }; } | hash_text
}

image_path() { printf '%s\n' "$CACHE/images/$(image_key)"; }

image_present() { [ -f "$(image_path)/manifest.json" ]; }

image_build() {
	local key
	key=$(image_key)
	[ ! -d "$CACHE/images/$key" ] || return 0
	entry_begin images
	# One file in all images of a base: their pages are shared in the host's memory too.
	ln "$LAYER/rootfs.ext4" "$KERNEL/vmlinux" "$ENTRY_TMP/"
	recipe_print >"$ENTRY_TMP/template.json"
	scratch_make "$(jq -r '.limits.disk_mb // 1024' "$ENTRY_TMP/template.json")" "$ENTRY_TMP/scratch.ext4"
	initrd_make "$ENTRY_TMP"
	guest_disk_make "$ENTRY_TMP/guest.ext4"
	manifest_print "$key" >"$ENTRY_TMP/manifest.json"
	entry_publish images "$key"
}

# The guest programs travel in the initramfs and become the overlay's middle layer: half a
# megabyte of guest memory, and a changed source does not write the root image again.
initrd_make() {
	local out=$1 stage=$1/.initrd
	mkdir -p "$stage"
	cp -r "$KERNEL/initrd/." "$stage/"
	cp -a "$GUEST/root" "$stage/guest"
	install -m 755 "$GUEST/init" "$stage/init"
	"${IN_BUILD_CHROOT[@]}" --bind "$out:/out" -- sh -c \
		'cd /out/.initrd && find . | sort | cpio -o -H newc -R 0:0 --quiet >/out/initrd'
	rm -r "$stage"
}

# guest_disk_make FILE: the same programs as a disk, for sandboxes that have no initramfs: those in a jail.
guest_disk_make() {
	local kb
	kb=$(du -sk --apparent-size "$GUEST/root" | cut -f1)
	truncate -s "$((2 * kb + 2048))K" "$1"
	mkfs.ext4 -q -F -L carrel-guest -m 0 -b 1024 -O '^has_journal,^resize_inode' \
		-E 'lazy_itable_init=0,root_owner=0:0' -d "$GUEST/root" "$1"
}

# file_json NAME HASH: one entry of the manifest's files.
file_json() {
	jq -n --arg name "$1" --argjson size "$(stat -c %s "$ENTRY_TMP/$1")" --arg sha256 "$2" \
		'{($name): ({size: $size} + if $sha256 == "" then {} else {sha256: $sha256} end)}'
}

# The scratch disk has no hash: it is a gigabyte of holes, empty by construction, and what
# a snapshot binds is its own copy of it.
manifest_print() {
	{
		file_json rootfs.ext4 "$(cat "$LAYER/rootfs.sha256")"
		file_json vmlinux "$(cat "$KERNEL/vmlinux.sha256")"
		file_json initrd "$(file_sha256 "$ENTRY_TMP/initrd")"
		file_json guest.ext4 "$(file_sha256 "$ENTRY_TMP/guest.ext4")"
		file_json scratch.ext4 ''
	} | jq -s --tab --arg template "$RECIPE_NAME" --arg hash "$1" \
		--arg built_at "$(date -u +%Y-%m-%dT%H:%M:%S.000Z)" --arg kernel "$(cat "$KERNEL/version")" \
		--argjson packages "$(grep -c '^Package:' "$(layer_file /var/lib/dpkg/status)")" \
		'{template: $template, hash: $hash, built_at: $built_at, kernel: $kernel,
		  packages: $packages, files: add}'
}
