# The writable disk of a sandbox, empty. Sparse, no journal (it never outlives a crash of
# its machine), no blocks kept for root, every table there now (as a hole: zeros) so that
# the guest's kernel has nothing to initialise behind a snapshot.

# scratch_make SIZE_MB FILE
scratch_make() {
	truncate -s "$1M" "$2.full"
	mkfs.ext4 -q -F -L carrel-scratch -m 0 -b 4096 -i 8192 -I 256 \
		-O '^has_journal,^resize_inode' -E 'lazy_itable_init=0,nodiscard,root_owner=0:0' "$2.full"
	cp --sparse=always "$2.full" "$2"
	rm "$2.full"
}
