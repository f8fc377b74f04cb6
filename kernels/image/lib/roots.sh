# The two roots made from packages: the build chroot, and a template's base root.

# Raised by hand when the same packages are put together in another way.
ROOTS_RECIPE=1

# list_packages FILE: a package list without comments, on one line, comma-separated.
list_packages() { sed 's/#.*//; s/[[:space:]]//g; /^$/d' "$1" | paste -sd, -; }

template_packages() {
	printf '%s,' "$(list_packages "$REPO/conf/packages/guest")"
	jq -r '.packages | join(",")' "$TEMPLATE_DIR/template.json"
}

chroot_key() {
	{ echo "$ROOTS_RECIPE$REFRESHED"
	  hash_files "$REPO" conf/packages/guest-build
	  hash_files "$IMAGE_DIR" dpkg-excludes; } | hash_text
}

packages_key() {
	{ echo "$ROOTS_RECIPE$REFRESHED"
	  jq -cS '.packages' "$TEMPLATE_DIR/template.json"
	  hash_files "$REPO" conf/packages/guest
	  hash_files "$IMAGE_DIR" dpkg-excludes; } | hash_text
}

base_key() {
	{ packages_key
	  jq -cS '.root' "$TEMPLATE_DIR/template.json"
	  [ ! -d "$TEMPLATE_DIR/base" ] || hash_files "$TEMPLATE_DIR" base
	  hash_files "$IMAGE_DIR" finish-base make-rootfs; } | hash_text
}

chroot_build() {
	local key packages
	key=$(chroot_key)
	BUILD_ROOT=$CACHE/chroot/$key/root
	[ ! -d "$BUILD_ROOT" ] || return 0
	packages=$(list_packages "$REPO/conf/packages/guest-build")
	apt_announce "build chroot" '?essential' apt ${packages//,/ }
	entry_begin chroot
	debootstrap_root "build chroot" "$ENTRY_TMP/root" apt "$packages" \
		--dpkgopt="$IMAGE_DIR/dpkg-excludes"
	entry_publish chroot "$key"
}

packages_build() {
	local key packages
	key=$(packages_key)
	PACKAGES_ROOT=$CACHE/packages/$key/root
	[ ! -d "$PACKAGES_ROOT" ] || return 0
	packages=$(template_packages)
	apt_announce "template's packages" '?essential' apt ${packages//,/ }
	entry_begin packages
	debootstrap_root "template's packages" "$ENTRY_TMP/root" apt "$packages" \
		--dpkgopt="$IMAGE_DIR/dpkg-excludes"
	entry_publish packages "$key"
}

# Apart from the packages, which take minutes, so that a template's own steps can be
# worked on. Its file system is made once, with its hash: every image of this base has
# the same one.
base_build() {
	local key
	key=$(base_key)
	BASE=$CACHE/base/$key
	[ ! -d "$BASE" ] || return 0
	packages_build
	entry_begin base
	run_long "base root, copying" cp -a --reflink=auto "$PACKAGES_ROOT" "$ENTRY_TMP/root"
	run_long "base root, last steps" "${CONFINED[@]}" "$IMAGE_DIR/finish-base" "$ENTRY_TMP/root" "$TEMPLATE_DIR"
	run_long "base root, file system" "$IMAGE_DIR/make-rootfs" "$ENTRY_TMP/root" "$ENTRY_TMP/rootfs.ext4"
	file_sha256 "$ENTRY_TMP/rootfs.ext4" >"$ENTRY_TMP/rootfs.sha256"
	entry_publish base "$key"
}
