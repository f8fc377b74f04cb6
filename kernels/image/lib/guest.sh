# Guest kernel and guest programs.

# Everything that ends up in /usr/lib/carrel or in the template's own files.
guest_key() {
	{ chroot_key
	  hash_files "$REPO" Makefile kernels "conf/templates/$TEMPLATE_NAME"; } | hash_text
}
