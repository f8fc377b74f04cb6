#include "images.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox.h"
#include "template.h"

enum { IMAGES_PATH_MAX = 512 };

static bool name_ok(const char *name, const char *letters, size_t max)
{
	size_t len = strspn(name, letters);

	return len > 0 && len <= max && name[len] == '\0' && name[0] != '-';
}

static bool is_name(const char *name)
{
	return name_ok(name, "abcdefghijklmnopqrstuvwxyz0123456789-", IMAGE_NAME_SIZE - 1);
}

static bool is_hash(const char *hash)
{
	return name_ok(hash, "0123456789abcdef", sizeof(((struct image *)NULL)->hash) - 1);
}

/* The first line of $STATE/templates/NAME/image. */
static bool hash_read(const struct core *c, const char *name, char ret[72])
{
	char path[IMAGES_PATH_MAX];
	FILE *file;

	if (!is_name(name))
		return false;
	snprintf(path, sizeof(path), "%s/templates/%s/image", c->settings->state, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(ret, 72, file))
		ret[0] = '\0';
	fclose(file);
	ret[strcspn(ret, "\n")] = '\0';
	return is_hash(ret);
}

static void image_path(const struct core *c, const char *hash, char ret[IMAGES_PATH_MAX])
{
	snprintf(ret, IMAGES_PATH_MAX, "%s/images/%s", c->settings->cache, hash);
}

static struct image *image_get(struct core *c, const char *hash, struct fault *f)
{
	char path[IMAGES_PATH_MAX];
	struct image *image;

	if (strcmp(hash, c->image.hash) == 0)
		return &c->image;
	for (image = c->images; image; image = image->next) {
		if (strcmp(image->hash, hash) == 0)
			return image;
	}
	image = calloc(1, sizeof(*image));
	if (!image) {
		fault_no_memory(f);
		return NULL;
	}
	image_path(c, hash, path);
	if (image_open(path, image, f) < 0) {
		free(image);
		return NULL;
	}
	image->next = c->images;
	c->images = image;
	return image;
}

struct image *images_named(struct core *c, const char *name, struct fault *f)
{
	char hash[72];

	if (strcmp(name, c->settings->template_name) == 0)
		return &c->image;
	images_sweep(c);
	if (hash_read(c, name, hash))
		return image_get(c, hash, f);
	fault_field(f, "unknown_template", "template",
		    "There is no template \"%.48s\" here. GET /v1/templates lists them; carrel template build makes one.", name);
	return NULL;
}

struct image *images_hashed(struct core *c, const char *hash)
{
	struct image *image = NULL;
	struct fault f;

	if (is_hash(hash))
		image = image_get(c, hash, &f);
	return image ? image : &c->image;
}

static bool image_removed(const struct core *c, const struct image *image)
{
	char path[IMAGES_PATH_MAX];

	image_path(c, image->hash, path);
	return access(path, F_OK) < 0 && errno == ENOENT;
}

static bool image_used(const struct core *c, const struct image *image)
{
	const struct sandbox *sb;

	for (sb = c->sandboxes; sb; sb = sb->next) {
		if (sb->from == image)
			return true;
	}
	return false;
}

void images_sweep(struct core *c)
{
	struct image **at = &c->images, *image;

	while ((image = *at) != NULL) {
		if (!image_removed(c, image) || image_used(c, image) || !templates_forget(c, image)) {
			at = &image->next;
			continue;
		}
		*at = image->next;
		image_close(image);
		free(image);
	}
}

void images_close(struct core *c)
{
	struct image *image;

	while ((image = c->images) != NULL) {
		c->images = image->next;
		image_close(image);
		free(image);
	}
}

void image_limits(const struct image *image, struct limits *limits)
{
	limits_fill(limits, json_object_get(image->recipe, "limits"));
}

void image_class(const struct image *image, struct vm_class *ret)
{
	struct limits limits = { 0 };

	image_limits(image, &limits);
	template_class(limits.memory_mb, limits.cpus, limits.disk_mb, ret);
}

/* --- lists --- */

static json_t *image_row(const char *name, const char *hash, const char *built_at, json_t *recipe)
{
	json_t *languages = json_object_get(recipe, "languages"), *limits = json_object_get(recipe, "limits");

	/* Copies: what a worker holds must not share counters of references with another's. */
	return json_pack("{s:s, s:s*, s:s*, s:s, s:s, s:o, s:o}", "name", name, "description",
			 json_string_value(json_object_get(recipe, "description")), "base",
			 json_string_value(json_object_get(recipe, "base")), "image", hash, "built_at", built_at,
			 "languages", languages ? json_deep_copy(languages) : json_pack("[s]", "python"), "limits",
			 limits ? json_deep_copy(limits) : json_object());
}

static json_t *file_json(const char *dir, const char *name)
{
	char path[IMAGES_PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return json_load_file(path, 0, NULL);
}

/* NULL: it was removed meanwhile, or its image is gone. */
static json_t *row_of(const struct core *c, const char *name)
{
	char hash[72], path[IMAGES_PATH_MAX];
	json_t *recipe, *manifest, *row = NULL;
	const char *built_at;

	if (strcmp(name, c->settings->template_name) == 0)
		return image_row(name, c->image.hash, c->image.built_at, c->image.recipe);
	if (!hash_read(c, name, hash))
		return NULL;
	image_path(c, hash, path);
	recipe = file_json(path, "template.json");
	manifest = file_json(path, "manifest.json");
	built_at = json_string_value(json_object_get(manifest, "built_at"));
	if (recipe && built_at)
		row = image_row(name, hash, built_at, recipe);
	json_decref(recipe);
	json_decref(manifest);
	return row;
}

struct names {
	unsigned count;
	char each[IMAGES_MAX][IMAGE_NAME_SIZE];
};

static void name_add(const char *name, void *arg)
{
	struct names *n = arg;

	if (n->count < IMAGES_MAX)
		snprintf(n->each[n->count++], IMAGE_NAME_SIZE, "%s", name);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

void images_each(const struct core *c, void (*call)(const char *name, void *arg), void *arg)
{
	char path[IMAGES_PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/templates", c->settings->state);
	dir = opendir(path);
	if (!dir)
		return;
	while ((entry = readdir(dir)) != NULL) {
		if (is_name(entry->d_name) && strcmp(entry->d_name, c->settings->template_name) != 0)
			call(entry->d_name, arg);
	}
	closedir(dir);
}

json_t *images_list(const struct core *c, const char *after, unsigned limit)
{
	struct names *n = calloc(1, sizeof(*n));
	json_t *list = json_array(), *row;
	bool more = false;
	unsigned i;

	if (!n || !list) {
		free(n);
		json_decref(list);
		return NULL;
	}
	name_add(c->settings->template_name, n);
	images_each(c, name_add, n);
	qsort(n->each, n->count, IMAGE_NAME_SIZE, by_name);
	for (i = 0; i < n->count && !more; i++) {
		row = after && strcmp(n->each[i], after) <= 0 ? NULL : row_of(c, n->each[i]);
		more = row && json_array_size(list) == limit;
		if (row && !more)
			json_array_append(list, row);
		json_decref(row);
	}
	free(n);
	row = json_object_get(json_array_get(list, json_array_size(list) - 1), "name");
	return json_pack("{s:o, s:O?}", "templates", list, "next", more ? row : NULL);
}

json_t *images_row(const struct core *c, const char *name)
{
	return row_of(c, name);
}
