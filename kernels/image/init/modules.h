/* Kernel modules of the initramfs.
 *
 * The list was put in order of dependency when the image was built, so this
 * only walks it; there is no module resolver in the guest.
 */
#ifndef CARREL_INIT_MODULES_H
#define CARREL_INIT_MODULES_H

/* Loads every file named in `list` (one path a line) and deletes it after,
 * for the memory it takes. A module that is there already is fine. Does not
 * return on failure. */
void modules_load(const char *list);

#endif
