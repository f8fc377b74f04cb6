# The two roots made from packages: the build chroot, and a template's base root.

# list_packages FILE: a package list without comments, on one line, comma-separated.
list_packages() { sed 's/#.*//; s/[[:space:]]//g; /^$/d' "$1" | paste -sd, -; }

template_packages() {
	printf '%s,' "$(list_packages "$REPO/conf/packages/guest")"
	jq -r '.packages | join(",")' "$TEMPLATE_DIR/template.json"
}

chroot_key() {
	{ hash_files "$REPO" conf/packages/guest-build
	  hash_files "$IMAGE_DIR" lib/roots.sh dpkg-excludes; } | hash_text
}

base_key() {
	{ jq -cS '{packages, root}' "$TEMPLATE_DIR/template.json"
	  hash_files "$REPO" conf/packages/guest
	  hash_files "$IMAGE_DIR" lib/roots.sh finish-base dpkg-excludes; } | hash_text
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

base_build() {
	local key packages
	key=$(base_key)
	BASE_ROOT=$CACHE/base/$key/root
	[ ! -d "$BASE_ROOT" ] || return 0
	packages=$(template_packages)
	apt_announce "base root" '?essential' apt ${packages//,/ }
	entry_begin base
	debootstrap_root "base root" "$ENTRY_TMP/root" apt "$packages" \
		--dpkgopt="$IMAGE_DIR/dpkg-excludes"
	run_long "base root, last steps" confined "$IMAGE_DIR/finish-base" "$ENTRY_TMP/root" \
		"$(jq -r '.root // false' "$TEMPLATE_DIR/template.json")"
	entry_publish base "$key"
}
