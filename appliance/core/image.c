#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_HASH_MAX = 71 };

static int image_file(int dir, const char *dir_name, const char *name, int *ret, struct fault *f)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return fault_set(f, errno, 500, "image",
				 "%s/%s cannot be opened: %s. Build the image again with "
				 "kernels/image/build.",
				 dir_name, name, strerror(errno));
	*ret = fd;
	return 0;
}

static int image_json(int dir, const char *dir_name, const char *name, json_t **ret, struct fault *f)
{
	json_error_t error;
	json_t *json;
	int fd, err = image_file(dir, dir_name, name, &fd, f);

	if (err < 0)
		return err;
	json = json_loadfd(fd, 0, &error);
	close(fd);
	if (!json_is_object(json)) {
		json_decref(json);
		return fault_set(f, EINVAL, 500, "image", "%s/%s is not a JSON object: %s.", dir_name, name,
				 error.text);
	}
	*ret = json;
	return 0;
}

static int image_manifest(struct image *image, int dir, const char *dir_name, struct fault *f)
{
	const char *hash, *built_at, *name;
	json_t *manifest = NULL;
	int err = image_json(dir, dir_name, "manifest.json", &manifest, f);

	if (err < 0)
		return err;
	hash = json_string_value(json_object_get(manifest, "hash"));
	built_at = json_string_value(json_object_get(manifest, "built_at"));
	name = json_string_value(json_object_get(manifest, "template"));
	if (!hash || strlen(hash) > NAME_HASH_MAX || !built_at || !name) {
		err = fault_set(f, EINVAL, 500, "image", "%s/manifest.json lacks template, hash or built_at.",
				dir_name);
	} else {
		snprintf(image->hash, sizeof(image->hash), "%s", hash);
		snprintf(image->built_at, sizeof(image->built_at), "%s", built_at);
		snprintf(image->template_name, sizeof(image->template_name), "%s", name);
	}
	json_decref(manifest);
	return err;
}

static int image_files(struct image *image, int dir, const char *dir_name, struct fault *f)
{
	struct stat st;
	int err = image_file(dir, dir_name, "rootfs.ext4", &image->rootfs_fd, f);

	if (!err)
		err = image_file(dir, dir_name, "scratch.ext4", &image->scratch_fd, f);
	if (!err)
		err = image_file(dir, dir_name, "vmlinux", &image->kernel_fd, f);
	if (!err)
		err = image_file(dir, dir_name, "initrd", &image->initrd_fd, f);
	if (!err)
		err = image_file(dir, dir_name, "guest.ext4", &image->guest_fd, f);
	if (!err && fstat(image->scratch_fd, &st) == 0)
		image->disk_mb = (unsigned)(st.st_size / (1024 * 1024));
	return err;
}

int image_open(const char *dir_name, struct image *ret, struct fault *f)
{
	struct image image = { .rootfs_fd = -1, .scratch_fd = -1, .kernel_fd = -1, .initrd_fd = -1, .guest_fd = -1 };
	int dir = open(dir_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err;

	if (dir < 0)
		return fault_set(f, errno, 500, "image",
				 "The image %s cannot be opened: %s. Build it with "
				 "kernels/image/build.",
				 dir_name, strerror(errno));
	err = image_manifest(&image, dir, dir_name, f);
	if (!err)
		err = image_json(dir, dir_name, "template.json", &image.recipe, f);
	if (!err)
		err = image_files(&image, dir, dir_name, f);
	close(dir);
	if (err < 0) {
		image_close(&image);
		return err;
	}
	*ret = image;
	return 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void image_close(struct image *image)
{
	json_decref(image->recipe);
	image->recipe = NULL;
	close_fd(&image->rootfs_fd);
	close_fd(&image->scratch_fd);
	close_fd(&image->kernel_fd);
	close_fd(&image->initrd_fd);
	close_fd(&image->guest_fd);
}
