/* UNIT: appliance appliance/core appliance/store vmm/host/spawn_link.c vmm/host/connect.c kernels/link LIBS: -ljansson -lsqlite3 -lnghttp2 -luv -lcrypto */
/* What was saved of a sandbox, on disk: sealed, opened, copied, damaged; and the pins that keep what it lies on. */
#include <sys/stat.h>
#include <utime.h>

#include "appliance/core/base.h"
#include "appliance/core/set.h"
#include "appliance/core/snapshot.h"
#include "core_fake.h"
#include "vmm/pages.h"

enum { RAM_MB = 1, DATA = 3 };

static char dir[200];
static int ram_fd, rootfs_fd;
static const char ram_hash[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const char key[] = "00112233445566778899aabbccddeeff";

static const char *in(const char *fmt, const char *name)
{
	static char path[4][600];
	static unsigned at;

	at = (at + 1) % 4;
	snprintf(path[at], sizeof(path[at]), fmt, dir, name);
	return path[at];
}

static int file(const char *path, const void *bytes, size_t len)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0);
	CHECK_INT(pwrite(fd, bytes, len, 0), (ssize_t)len);
	return fd;
}

static void text_file(const char *path, const char *text)
{
	close(file(path, text, strlen(text)));
}

/* A warm snapshot as far as pins look at one. */
static void snapshot_make(const char *name, const char *ram)
{
	char manifest[400], path[600];

	snprintf(path, sizeof(path), "%s/cache/snapshots/%s", dir, name);
	CHECK_INT(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/cache/snapshots/%s/manifest.json", dir, name);
	snprintf(manifest, sizeof(manifest), "{\"image\":\"gone\",\"sha256\":{\"ram\":\"%s\"}}", ram);
	text_file(path, manifest);
}

static void pages_make(int fd, const char *state, size_t state_len)
{
	struct pages_extent table[] = { { 0, DATA }, { 10, 2 | PAGES_ZERO } };
	struct pages_header h = { .version = PAGES_VERSION,
				  .page_bytes = PAGES_PAGE,
				  .ram_bytes = RAM_MB << 20,
				  .state_bytes = state_len,
				  .state_sum = sum_of(state, state_len),
				  .data_pages = DATA,
				  .zero_pages = 2,
				  .extents = 2 };
	static char data[DATA * PAGES_PAGE];

	memset(data, 7, sizeof(data));
	memcpy(h.magic, PAGES_MAGIC, sizeof(h.magic));
	h.table_sum = sum_of(table, sizeof(table));
	h.data_sum = sum_of(data, sizeof(data));
	h.file_bytes = pages_table_offset(&h) + sizeof(table);
	h.header_sum = pages_header_sum(&h);
	CHECK_INT(pwrite(fd, data, sizeof(data), PAGES_PAGE), sizeof(data));
	CHECK_INT(pwrite(fd, table, sizeof(table), (off_t)pages_table_offset(&h)), sizeof(table));
	CHECK_INT(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
}

static struct set set_make(const char *path)
{
	struct fault f;
	struct set s;

	CHECK_INT(set_begin(path, &s, &f), 0);
	CHECK_INT(pwrite(s.state_fd, "state", 5, 0), 5);
	pages_make(s.pages_fd, "state", 5);
	s.cls = (struct vm_class){ .memory_mb = RAM_MB, .vcpus = 1, .disk_mb = 1 };
	snprintf(s.base.key, sizeof(s.base.key), "%s", key);
	snprintf(s.base.ram, sizeof(s.base.ram), "%s", ram_hash);
	strcpy(s.image, "image1");
	strcpy(s.fingerprint, "engine 1");
	s.inside = json_pack("{s:[],s:[]}", "kernels", "processes");
	return s;
}

static struct set_host host(void)
{
	struct set_host h = {
		.cache = in("%s/%s", "cache"), .fingerprint = "engine 1", .rootfs_fd = rootfs_fd, .ram_fd = ram_fd
	};

	strcpy(h.image, "image1");
	snprintf(h.base.key, sizeof(h.base.key), "%s", key);
	snprintf(h.base.ram, sizeof(h.base.ram), "%s", ram_hash);
	return h;
}

static void opens(const char *path, const char *disk)
{
	struct set_host h = host();
	struct fault f = { 0 };
	struct set s;
	int err = set_open(path, disk, &h, &s, &f);

	if (err)
		fprintf(stderr, "%s\n", f.message);
	CHECK_INT(err, 0);
	CHECK_INT(s.data_bytes, DATA * PAGES_PAGE);
	CHECK(s.ram_fd >= 0 && s.rootfs_fd >= 0 && s.scratch_fd >= 0);
	set_close(&s);
}

static void refused(const char *path, const char *disk, const struct set_host *h, const char *code)
{
	struct fault f = { 0 };
	struct set s;

	CHECK(set_open(path, disk, h, &s, &f) < 0);
	CHECK_STR(f.code, code);
}

static void flipped(const char *path, const char *disk, const char *name, off_t at)
{
	struct set_host h = host();
	char whole[700], byte;
	int fd;

	snprintf(whole, sizeof(whole), "%s/%s", path, name);
	fd = open(whole, O_RDWR);
	CHECK_INT(pread(fd, &byte, 1, at), 1);
	byte ^= 1;
	CHECK_INT(pwrite(fd, &byte, 1, at), 1);
	refused(path, disk, &h, "snapshot_damaged");
	byte ^= 1;
	CHECK_INT(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static void paused(void)
{
	char path[600], disk[600];
	struct set_host h = host();
	struct fault f;
	struct set s;
	struct stat st;

	snprintf(path, sizeof(path), "%s/sets/sbx-1", dir);
	snprintf(disk, sizeof(disk), "%s/disk", dir);
	text_file(disk, "disk");
	s = set_make(path);
	CHECK_INT(set_seal(&s, path, disk, NULL, &f), 0);
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_mode & 0777, 0700);
	set_close(&s);
	CHECK(set_intact(path, disk));
	opens(path, disk);
	flipped(path, disk, "state", 2);
	flipped(path, disk, "pages", 4);
	flipped(path, disk, "pages", PAGES_PAGE + 5);
	flipped(path, disk, "manifest.json", 20);
	h.fingerprint = "engine 2";
	refused(path, disk, &h, "snapshot_version");
	h = host();
	strcpy(h.image, "image2");
	refused(path, disk, &h, "snapshot_version");
	/* Written to since: of no use, whatever the bytes are. */
	CHECK_INT(utime(disk, &(struct utimbuf){ 1, 1 }), 0);
	CHECK(!set_intact(path, disk));
	h = host();
	refused(path, disk, &h, "snapshot_damaged");
}

static void kept(void)
{
	char set[600], making[600];
	struct set_host h = host();
	struct fault f;
	struct set s;
	int fd = file(in("%s/%s", "disk2"), "disk two", 8);

	snprintf(set, sizeof(set), "%s/snapshots/snap-1", dir);
	snprintf(making, sizeof(making), "%s/snapshots/" SET_MAKING "snap-1", dir);
	s = set_make(set);
	CHECK_INT(set_add_disk(&s, fd, &f), 0);
	CHECK_INT(set_seal(&s, set, NULL, NULL, &f), 0);
	set_close(&s);
	close(fd);
	opens(set, NULL);
	flipped(set, NULL, "scratch.ext4", 3);
	/* A second one under the name takes its place whole; given up, it leaves nothing. */
	s = set_make(set);
	CHECK(access(making, F_OK) == 0);
	set_drop(&s);
	CHECK(access(making, F_OK) < 0);
	opens(set, NULL);
	/* Memory is another boot's. */
	h.base.ram[0] ^= 1;
	h.ram_fd = -1;
	refused(set, NULL, &h, "snapshot");
	set_remove(set, in("%s/cache/%s", "snapshots"), "snap-1");
	CHECK(access(set, F_OK) < 0);
}

static void pins(void)
{
	char snapshots[300], images[300], aside[BASE_PATH_MAX], found[BASE_PATH_MAX], path[BASE_PATH_MAX + 32],
		text[BASE_TEXT_MAX];
	struct base b, none;
	struct fault f;

	snprintf(snapshots, sizeof(snapshots), "%s/cache/snapshots", dir);
	snprintf(images, sizeof(images), "%s/cache/images", dir);
	snprintf(path, sizeof(path), "%s/%s", snapshots, key);
	snprintf(b.key, sizeof(b.key), "%s", key);
	snprintf(b.ram, sizeof(b.ram), "%s", ram_hash);
	base_text(&b, text);
	CHECK(base_parse(text, &none));
	CHECK_STR(none.key, b.key);
	CHECK_STR(none.ram, b.ram);
	CHECK(!base_parse("../x y", &none) && !base_parse("", &none) && !base_parse(NULL, &none));
	CHECK_STR(none.key, "");
	base_text(&none, text);
	CHECK_STR(text, "");

	CHECK(!base_pinned(path));
	CHECK_INT(base_pin(snapshots, &b, "sbx-1", &f), 0);
	CHECK(base_pinned(path));
	/* Its image is gone; who lies on it keeps it, also when it was put aside. */
	snapshot_sweep(snapshots, images);
	CHECK(access(path, F_OK) == 0);
	base_aside(path, ram_hash, aside);
	CHECK_INT(rename(path, aside), 0);
	snapshot_sweep(snapshots, images);
	CHECK_INT(base_find(snapshots, &b, found, &f), 0);
	CHECK_STR(found, aside);
	CHECK_INT(base_pin(snapshots, &b, "sbx-2", &f), 0);
	base_unpin(snapshots, &b, "sbx-1");
	snapshot_sweep(snapshots, images);
	CHECK(access(aside, F_OK) == 0);
	/* A pin that nobody renews does not count for ever. */
	snprintf(path, sizeof(path), "%s/pin-sbx-2", aside);
	CHECK_INT(utime(path, &(struct utimbuf){ 1, 1 }), 0);
	CHECK(!base_pinned(aside));
	CHECK_INT(base_pin(snapshots, &b, "sbx-2", &f), 0);
	CHECK(base_pinned(aside));
	base_unpin(snapshots, &b, "sbx-2");
	snapshot_sweep(snapshots, images);
	CHECK(access(aside, F_OK) < 0);
	CHECK_INT(base_pin(snapshots, &b, "sbx-3", &f), -ENOENT);
	CHECK_STR(f.code, "snapshot_missing");
}

static void snapshot_begun(const char *path, const char *ram, struct snapshot *ret)
{
	struct image image = { .hash = "image", .scratch_fd = -1 };
	struct vm_class cls = { .memory_mb = RAM_MB, .vcpus = 1, .disk_mb = 4 };
	struct fault f;

	CHECK_INT(snapshot_begin(path, &image, &cls, ret, &f), 0);
	CHECK_INT(pwrite(ret->ram_fd, ram, strlen(ram), 0), (ssize_t)strlen(ram));
}

static void snapshot_sealed(const char *path, struct snapshot *s)
{
	struct image image = { .hash = "image", .scratch_fd = -1 };
	struct fault f;

	CHECK_INT(snapshot_seal(s, path, "engine", &image, &f), 0);
	CHECK_STR(s->path, path);
}

/* Two appliances on one cache make the same snapshot: what the first has cloned must keep its memory. */
static void raced(void)
{
	char path[600], hash[sizeof(((struct snapshot *)0)->ram_hash)];
	struct snapshot first, second, third;

	snprintf(path, sizeof(path), "%s/cache/snapshots/abcd", dir);
	snapshot_begun(path, "first", &first);
	snapshot_begun(path, "second", &second);
	snapshot_sealed(path, &first);
	memcpy(hash, first.ram_hash, sizeof(hash));
	snapshot_sealed(path, &second);
	CHECK_STR(second.ram_hash, hash);
	CHECK(snapshot_unchanged(&first));
	/* One that was there all the time, and of no use, is put aside. */
	snapshot_begun(path, "third", &third);
	snapshot_sealed(path, &third);
	CHECK(strcmp(third.ram_hash, hash) != 0);
	snapshot_close(&first);
	snapshot_close(&second);
	snapshot_close(&third);
}

int main(void)
{
	static const char *const made[] = { "sets", "snapshots", "cache", "cache/snapshots", "cache/images" };
	char command[300];

	snprintf(dir, sizeof(dir), "/tmp/carrel-saved-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		CHECK_INT(mkdir(in("%s/%s", made[i]), 0700), 0);
	ram_fd = file(in("%s/%s", "ram"), "ram", 3);
	rootfs_fd = file(in("%s/%s", "rootfs"), "rootfs", 6);
	snapshot_make(key, ram_hash);
	paused();
	kept();
	pins();
	raced();
	close(ram_fd);
	close(rootfs_fd);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command) == 0 ? 0 : 1;
}
