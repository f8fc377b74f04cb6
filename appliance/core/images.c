#include "images.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template.h"

enum { IMAGES_PATH_MAX = 512 };

static bool name_ok(const char *name, const char *letters, size_t max)
{
	size_t len = strspn(name, letters);

	return len > 0 && len <= max && name[len] == '\0' && name[0] != '-';
}

static bool is_name(const char *name)
{
	return name_ok(name, "abcdefghijklmnopqrstuvwxyz0123456789-", sizeof(((struct image *)NULL)->template_name) - 1);
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

void images_close(struct core *c)
{
	struct image *image;

	while ((image = c->images) != NULL) {
		c->images = image->next;
		image_close(image);
		free(image);
	}
}

void image_limits(const struct image *image, struct sandbox_spec *spec)
{
	json_t *limits = json_object_get(image->recipe, "limits");
	json_t *memory = json_object_get(limits, "memory_mb"), *disk = json_object_get(limits, "disk_mb");
	double cpus = json_number_value(json_object_get(limits, "cpus"));

	if (!spec->memory_mb)
		spec->memory_mb = json_is_integer(memory) ? (unsigned)json_integer_value(memory) : 1024;
	if (!spec->disk_mb)
		spec->disk_mb = json_is_integer(disk) ? (unsigned)json_integer_value(disk) : 1024;
	if (!(spec->cpus > 0))
		spec->cpus = cpus > 0 ? cpus : 1;
}

void image_class(const struct image *image, struct vm_class *ret)
{
	struct sandbox_spec spec = { .memory_mb = 0 };

	image_limits(image, &spec);
	template_class(spec.memory_mb, spec.cpus, spec.disk_mb, ret);
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

struct listing {
	const struct core *core;
	const char *name; /* the only one, or NULL */
	json_t *list;
};

static void list_built(const char *name, void *arg)
{
	char hash[72], path[IMAGES_PATH_MAX], file[IMAGES_PATH_MAX + 32];
	struct listing *l = arg;
	json_t *recipe, *manifest;
	const char *built_at;

	if ((l->name && strcmp(l->name, name) != 0) || strcmp(name, l->core->settings->template_name) == 0 ||
	    !hash_read(l->core, name, hash))
		return;
	image_path(l->core, hash, path);
	snprintf(file, sizeof(file), "%s/template.json", path);
	recipe = json_load_file(file, 0, NULL);
	snprintf(file, sizeof(file), "%s/manifest.json", path);
	manifest = json_load_file(file, 0, NULL);
	built_at = json_string_value(json_object_get(manifest, "built_at"));
	if (recipe && built_at)
		json_array_append_new(l->list, image_row(name, hash, built_at, recipe));
	json_decref(recipe);
	json_decref(manifest);
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
		if (is_name(entry->d_name))
			call(entry->d_name, arg);
	}
	closedir(dir);
}

json_t *images_list(const struct core *c, const char *name)
{
	const struct image *image = &c->image;
	struct listing l = { .core = c, .name = name, .list = json_array() };

	if (!name || strcmp(name, c->settings->template_name) == 0)
		json_array_append_new(l.list, image_row(c->settings->template_name, image->hash, image->built_at,
							image->recipe));
	images_each(c, list_built, &l);
	return l.list;
}
