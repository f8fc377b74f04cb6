/* UNIT: kernels/agent kernels/link LIBS: -lnghttp2 -luv -ljansson -lzmq -lcrypto */
/* Files and plain requests against a real agent process. */
#include "agent_client.h"

static struct client c;
static struct answer a;

static void put_path(char *url, size_t size, const char *name)
{
	snprintf(url, size, "/files?path=%s", name);
}

static void health_and_errors(void)
{
	ask(&c, &a, "GET", "/health", NULL);
	CHECK_INT(a.status, 200);
	CHECK(json_is_false(json_object_get(a.json, "identified")));
	ask(&c, &a, "GET", "/nothing", NULL);
	CHECK_INT(a.status, 404);
	CHECK_STR(answer_text(&a, "code"), "not_found");
	ask(&c, &a, "DELETE", "/health", NULL);
	CHECK_INT(a.status, 405);
	ask(&c, &a, "POST", "/processes", "{\"id\":\"a\",\"argv\":[\"true\"]}");
	CHECK_INT(a.status, 409);
	CHECK_STR(answer_text(&a, "code"), "wrong_state");
	ask(&c, &a, "PUT", "/identity", "{\"unix_ns\":1}");
	CHECK_INT(a.status, 400);
	ask(&c, &a, "PUT", "/identity", "[1]");
	CHECK_INT(a.status, 400);
	ask(&c, &a, "PUT", "/identity", "{");
	CHECK_INT(a.status, 400);
	client_identify(&c);
	ask(&c, &a, "GET", "/health", NULL);
	CHECK(json_is_true(json_object_get(a.json, "identified")));
	CHECK_STR(answer_text(&a, "boot_id"), "01234567-89ab-cdef-0123-456789abcdef");
	ask(&c, &a, "PUT", "/clock", "{\"unix_ns\":1764400000000000000}");
	CHECK_INT(a.status, 200);
	ask(&c, &a, "GET", "/stats", NULL);
	CHECK_INT(a.status, 200);
	CHECK(json_integer_value(json_object_get(a.json, "disk_size")) > 0);
	ask(&c, &a, "POST", "/freeze", "{}");
	CHECK_INT(a.status, 200);
}

static void body_too_large(void)
{
	size_t len = 2 * 1024 * 1024;
	char *body = malloc(len);

	memset(body, ' ', len);
	ask_bytes(&c, &a, "POST", "/kernels", body, len);
	CHECK_INT(a.status, 413);
	free(body);
}

static void round_trip(size_t len)
{
	uint8_t *bytes = malloc(len + 1);
	size_t i;

	for (i = 0; i < len; i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 13);
	ask_bytes(&c, &a, "PUT", "/files?path=new/folder/data%20%C3%A9.bin", bytes, len);
	CHECK(a.status == 201 || a.status == 200);
	CHECK_INT(json_integer_value(json_object_get(a.json, "size")), len);
	ask(&c, &a, "GET", "/files?path=new/folder/data%20%C3%A9.bin", NULL);
	CHECK_INT(a.status, 200);
	CHECK_INT(a.len, len);
	CHECK(len == 0 || memcmp(a.body, bytes, len) == 0);
	free(bytes);
}

static void owner_and_mode(void)
{
	char path[128];
	struct stat st;

	ask(&c, &a, "PUT", "/files?path=script.sh", "#!/bin/sh\n");
	CHECK_INT(a.status, 201);
	snprintf(path, sizeof(path), "%s/home/script.sh", c.dir);
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_uid, geteuid() == 0 ? 1000 : geteuid());
	CHECK_INT(st.st_mode & 0777, 0644);
	chmod(path, 0755);
	ask(&c, &a, "PUT", "/files?path=script.sh", "#!/bin/sh\ntrue\n");
	CHECK_INT(a.status, 200);
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_mode & 0777, 0755);
}

static void refusals(void)
{
	char path[128], url[256];

	ask(&c, &a, "GET", "/files?path=nowhere.txt", NULL);
	CHECK_INT(a.status, 404);
	CHECK_STR(answer_text(&a, "code"), "no_such_file");
	ask(&c, &a, "GET", "/files?path=new", NULL);
	CHECK_INT(a.status, 400);
	CHECK_STR(answer_text(&a, "code"), "is_a_directory");
	ask(&c, &a, "PUT", "/files?path=new", "x");
	CHECK_STR(answer_text(&a, "code"), "is_a_directory");
	ask(&c, &a, "PUT", "/files?path=script.sh/below", "x");
	CHECK_INT(a.status, 400);
	ask(&c, &a, "GET", "/files?path=a%00b", NULL);
	CHECK_INT(a.status, 400);
	ask(&c, &a, "GET", "/files?path=", NULL);
	CHECK_INT(a.status, 400);
	ask(&c, &a, "GET", "/files?path=%f", NULL);
	CHECK_INT(a.status, 400);
	ask(&c, &a, "GET", "/files?path=/proc/self/maps", NULL);
	CHECK_INT(a.status, 400);
	snprintf(path, sizeof(path), "%s/home/fifo", c.dir);
	CHECK_INT(mkfifo(path, 0666), 0);
	ask(&c, &a, "GET", "/files?path=fifo", NULL);
	CHECK_INT(a.status, 400);
	ask(&c, &a, "PUT", "/files?path=fifo", "x");
	CHECK_INT(a.status, 400);
	ask(&c, &a, "GET", "/files?path=/dev/zero", NULL);
	CHECK_INT(a.status, 400);
	if (geteuid() != 0)
		return;
	ask(&c, &a, "GET", "/files?path=/etc/shadow", NULL);
	CHECK_INT(a.status, 403);
	ask(&c, &a, "PUT", "/files?path=/etc/carrel-test", "x");
	CHECK_INT(a.status, 403);
	put_path(url, sizeof(url), "/dev/full");
	ask(&c, &a, "PUT", url, "x");
	CHECK_INT(a.status, 400);
}

/* A cut upload leaves neither target nor temporary file. */
static void cut_upload(void)
{
	struct answer cut = { 0 };
	struct link_stream *st;

	CHECK_INT(link_open(c.link, "PUT", "/files?path=cut/half.bin", true, &answer_ops, &cut, &st), 0);
	link_write(st, "half", 4);
	ask(&c, &a, "GET", "/health", NULL);
	link_reset(st);
	client_wait(&c, &cut.closed);
	do {
		ask(&c, &a, "GET", "/files/list?path=cut", NULL);
	} while (a.status == 404 || json_array_size(json_object_get(a.json, "entries")) > 0);
	CHECK_INT(a.status, 200);
	answer_clear(&cut);
}

static const char *entry_name(size_t i)
{
	return json_string_value(
		json_object_get(json_array_get(json_object_get(a.json, "entries"), i), "name"));
}

static void list_and_delete(void)
{
	char url[128];
	int i;

	for (i = 0; i < 7; i++) {
		snprintf(url, sizeof(url), "/files?path=list/f%d", i);
		ask(&c, &a, "PUT", url, "x");
		CHECK_INT(a.status, 201);
	}
	ask(&c, &a, "GET", "/files/list?path=list&limit=3", NULL);
	CHECK_INT(a.status, 200);
	CHECK_INT(json_array_size(json_object_get(a.json, "entries")), 3);
	CHECK_STR(entry_name(0), "f0");
	CHECK_STR(answer_text(&a, "next"), "f2");
	ask(&c, &a, "GET", "/files/list?path=list&limit=10&after=f2", NULL);
	CHECK_INT(json_array_size(json_object_get(a.json, "entries")), 4);
	CHECK_STR(entry_name(0), "f3");
	CHECK(json_is_null(json_object_get(a.json, "next")));
	ask(&c, &a, "GET", "/files/list?path=list&limit=0", NULL);
	CHECK_INT(a.status, 400);
	ask(&c, &a, "DELETE", "/files?path=list/f0", NULL);
	CHECK_INT(a.status, 204);
	ask(&c, &a, "DELETE", "/files?path=list", NULL);
	CHECK_INT(a.status, 400);
	CHECK_STR(answer_text(&a, "code"), "is_a_directory");
	ask(&c, &a, "DELETE", "/files?path=list&recursive=1", NULL);
	CHECK_INT(a.status, 204);
	ask(&c, &a, "GET", "/files/list?path=list", NULL);
	CHECK_INT(a.status, 404);
	ask(&c, &a, "DELETE", "/files?path=list", NULL);
	CHECK_INT(a.status, 404);
}

/* A full disk is named, and nothing of the file stays. */
static void full_disk(void)
{
	size_t len = 3 * 1024 * 1024;
	char command[256], *bytes = calloc(1, len);

	if (geteuid() != 0) {
		free(bytes);
		return;
	}
	snprintf(command, sizeof(command),
		 "mkdir %s/home/small && mount -t tmpfs -o size=1m,uid=1000,gid=1000 small %s/home/small",
		 c.dir, c.dir);
	if (system(command) != 0) {
		free(bytes);
		return;
	}
	ask_bytes(&c, &a, "PUT", "/files?path=small/big.bin", bytes, len);
	CHECK_INT(a.status, 507);
	CHECK_STR(answer_text(&a, "code"), "disk_full");
	do {
		ask(&c, &a, "GET", "/files/list?path=small", NULL);
		CHECK_INT(a.status, 200);
	} while (json_array_size(json_object_get(a.json, "entries")) > 0);
	snprintf(command, sizeof(command), "umount %s/home/small", c.dir);
	CHECK_INT(system(command), 0);
	free(bytes);
}

int main(void)
{
	client_start(&c, "/nonexistent");
	health_and_errors();
	body_too_large();
	round_trip(0);
	round_trip(1);
	round_trip(9 * 1024 * 1024 + 17);
	owner_and_mode();
	refusals();
	cut_upload();
	list_and_delete();
	full_disk();
	answer_clear(&a);
	client_stop(&c);
	return 0;
}
