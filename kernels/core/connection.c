#include "core/connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const port_names[CHANNELS] = {
	[CHANNEL_SHELL] = "shell_port", [CHANNEL_CONTROL] = "control_port", [CHANNEL_STDIN] = "stdin_port",
	[CHANNEL_IOPUB] = "iopub_port", [CHANNEL_HB] = "hb_port",
};

#define FAIL(...) (snprintf(why, why_size, __VA_ARGS__), -EINVAL)

int connection_from_json(const json_t *j, struct connection *ret, char *why, size_t why_size)
{
	const char *transport = json_string_value(json_object_get(j, "transport"));
	const char *ip = json_string_value(json_object_get(j, "ip"));
	const char *scheme = json_string_value(json_object_get(j, "signature_scheme"));
	const json_t *key = json_object_get(j, "key");
	struct connection c = { .key_len = json_string_length(key),
				.unsent = json_is_true(json_object_get(j, "carrel_unsent")) };
	int i, n;

	if (!transport)
		transport = "tcp";
	if (!ip)
		return FAIL("the connection has no \"ip\"");
	if (strcmp(transport, "tcp") && strcmp(transport, "ipc"))
		return FAIL("transport \"%.20s\" is not supported: use tcp or ipc", transport);
	if (c.key_len > 0 && scheme && strcmp(scheme, "hmac-sha256"))
		return FAIL("signature_scheme \"%.30s\" is not supported: use hmac-sha256", scheme);
	if (c.key_len > sizeof(c.key))
		return FAIL("the key is longer than %d bytes", WIRE_KEY_MAX);
	if (c.key_len > 0)
		memcpy(c.key, json_string_value(key), c.key_len);
	for (i = 0; i < CHANNELS; i++) {
		json_int_t port = json_integer_value(json_object_get(j, port_names[i]));

		if (port < 1 || port > 65535)
			return FAIL("\"%s\" is missing or not a port", port_names[i]);
		c.port[i] = (int)port;
		n = snprintf(c.address[i], sizeof(c.address[i]), "%s://%s%c%d", transport, ip,
			     strcmp(transport, "ipc") ? ':' : '-', (int)port);
		if (n < 0 || (size_t)n >= sizeof(c.address[i]))
			return FAIL("\"ip\" is too long");
	}
	*ret = c;
	return 0;
}

int connection_from_file(const char *path, struct connection *ret, char *why, size_t why_size)
{
	char text[CONNECTION_FILE_MAX];
	json_error_t jerr;
	json_t *j;
	FILE *f = fopen(path, "re");
	size_t n;
	int err;

	if (!f) {
		err = -errno;
		snprintf(why, why_size, "cannot open the connection file %s: %s", path, strerror(-err));
		return err;
	}
	n = fread(text, 1, sizeof(text), f);
	fclose(f);
	if (n == sizeof(text))
		return FAIL("the connection file %s is too large", path);
	j = json_loadb(text, n, 0, &jerr);
	if (!j)
		return FAIL("the connection file %s is not JSON: %s", path, jerr.text);
	err = connection_from_json(j, ret, why, why_size);
	json_decref(j);
	return err;
}
