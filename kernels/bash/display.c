#include "bash/display.h"
#include "core/core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <openssl/evp.h>
#include <sys/stat.h>

void display_reset(struct display *d, int count)
{
	d->count = count;
	while (d->n > 0)
		free(d->ids[--d->n]);
}

static bool __attribute__((format(printf, 3, 4)))
refuse(struct core *c, const struct request *r, const char *fmt, ...)
{
	char line[800], text[1600];
	struct utf8_stream u = { .n = 0 };
	BUF_AUTO clean = { 0 };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	snprintf(text, sizeof(text), "display: %s\n", line);
	utf8_feed(&u, text, strlen(text), &clean);
	core_flush(c);
	if (!clean.failed)
		iopub_put_text(&c->iopub, 1, r->parent, clean.data, clean.len);
	return false;
}

/* 0 with the file's bytes, which the caller frees. */
static int read_file(const char *path, char **ret, size_t *ret_n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err = 0;
	char *data = NULL;
	struct stat st;
	ssize_t got = 1;
	size_t n = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		err = -errno;
	else if (!S_ISREG(st.st_mode))
		err = -EINVAL;
	else if (st.st_size > DISPLAY_MAX)
		err = -EFBIG;
	else if (!(data = malloc(DISPLAY_MAX + 1)))
		err = -ENOMEM;
	while (!err && got > 0 && n < DISPLAY_MAX) {
		got = read(fd, data + n, DISPLAY_MAX - n);
		if (got < 0)
			err = -errno;
		else
			n += (size_t)got;
	}
	close(fd);
	if (err) {
		free(data);
		return err;
	}
	*ret = data;
	*ret_n = n;
	return 0;
}

static bool begins(const char *data, size_t n, const char *with, size_t len)
{
	return n >= len && !memcmp(data, with, len);
}

static const char *image_type(const char *data, size_t n)
{
	if (begins(data, n, "\x89PNG\r\n\x1a\n", 8))
		return "image/png";
	if (begins(data, n, "\xff\xd8\xff", 3))
		return "image/jpeg";
	if (begins(data, n, "GIF87a", 6) || begins(data, n, "GIF89a", 6))
		return "image/gif";
	if (begins(data, n, "RIFF", 4) && n >= 12 && !memcmp(data + 8, "WEBP", 4))
		return "image/webp";
	if (begins(data, n, "BM", 2))
		return "image/bmp";
	if (memmem(data, n < 4096 ? n : 4096, "<svg", 4))
		return "image/svg+xml";
	return NULL;
}

static json_t *text_value(const char *data, size_t n)
{
	struct utf8_stream u = { .n = 0 };
	BUF_AUTO clean = { 0 };

	utf8_feed(&u, data, n, &clean);
	utf8_end(&u, &clean);
	return clean.failed ? NULL : json_stringn(clean.data ? clean.data : "", clean.len);
}

static json_t *base64_value(const char *data, size_t n)
{
	char *text = malloc(4 * ((n + 2) / 3) + 1);
	json_t *value;

	if (!text)
		return NULL;
	EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)data, (int)n);
	value = json_string(text);
	free(text);
	return value;
}

static unsigned be32(const unsigned char *p)
{
	return (unsigned)p[0] << 24 | (unsigned)p[1] << 16 | (unsigned)p[2] << 8 | p[3];
}

/* What a front end sizes a picture by. */
static json_t *metadata(const char *mime, const char *data, size_t n)
{
	if (strcmp(mime, "image/png") || n < 24)
		return json_object();
	return json_pack("{s:{s:I, s:I}}", mime, "width", (json_int_t)be32((const unsigned char *)data + 16),
			 "height", (json_int_t)be32((const unsigned char *)data + 20));
}

/* False when it is shown for the first time in this cell. */
static bool remember(struct display *d, const char *id)
{
	size_t i;

	if (!id[0])
		return false;
	for (i = 0; i < d->n; i++) {
		if (!strcmp(d->ids[i], id))
			return true;
	}
	if (d->n < DISPLAY_IDS_MAX && (d->ids[d->n] = strdup(id)))
		d->n++;
	return false;
}

/* Without the newlines at its end, as in $(…). */
static size_t trimmed(const char *data, size_t n)
{
	while (n > 0 && data[n - 1] == '\n')
		n--;
	return n;
}

static bool publish(struct display *d, struct core *c, const char *kind, const char *mime, const char *id,
		    const char *data, size_t n)
{
	bool binary = !strncmp(mime, "image/", 6) && strcmp(mime, "image/svg+xml");
	bool plain = !strcmp(mime, "text/plain"), result = !strcmp(kind, "result");
	json_t *value = binary ? base64_value(data, n) : text_value(data, plain ? trimmed(data, n) : n);
	const char *type = "display_data";
	char size[80];
	json_t *content;

	snprintf(size, sizeof(size), "<%s, %zu bytes>", mime, n);
	content = json_pack("{s:{s:s}, s:{}, s:o}", "data", "text/plain", size, "transient", "metadata",
			    metadata(mime, data, n));
	json_object_set_new(json_object_get(content, "data"), mime, value);
	if (result) {
		type = "execute_result";
		json_object_set_new(content, "execution_count", json_integer(d->count));
	} else if (id[0]) {
		json_object_set_new(json_object_get(content, "transient"), "display_id", json_string(id));
		type = remember(d, id) ? "update_display_data" : type;
	}
	if (!value) {
		json_decref(content);
		return false;
	}
	return core_publish(c, type, content, NULL, NULL, 0) == 0;
}

static const char *mime_of(const char *kind, const char *data, size_t n)
{
	if (!strcmp(kind, "html"))
		return "text/html";
	if (!strcmp(kind, "js"))
		return "application/javascript";
	if (!strcmp(kind, "result") && !image_type(data, n))
		return "text/plain";
	return image_type(data, n);
}

bool display_file(struct display *d, struct core *c, const struct request *r, const char *kind,
		  const char *id, const char *path)
{
	const char *mime;
	char *data = NULL;
	size_t n = 0;
	bool ok;
	int err = read_file(path, &data, &n);

	if (err == -EFBIG)
		return refuse(c, r, "%.300s is too large: the limit is %d MiB", path, DISPLAY_MAX >> 20);
	if (err)
		return refuse(c, r, "%.300s cannot be shown: %s", path, strerror(-err));
	mime = mime_of(kind, data, n);
	if (n == 0)
		ok = refuse(c, r, "there is nothing to show: give a file, or the picture on standard input");
	else if (!mime)
		ok = refuse(c, r, "this is no picture in PNG, JPEG, GIF, WebP, BMP or SVG");
	else if (strlen(id) > DISPLAY_ID_MAX)
		ok = refuse(c, r, "a display id has at most %d bytes", DISPLAY_ID_MAX);
	else if (!publish(d, c, kind, mime, id, data, n))
		ok = refuse(c, r, "no memory was left for it");
	else
		ok = true;
	free(data);
	return ok;
}
