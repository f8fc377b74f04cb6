/* The Jupyter face's REST part: kernels and kernelspecs. Its clients add fields
 * with each version, so unknown ones are ignored. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "handlers.h"
#include "respond.h"

enum {
	IDLE_S = 30 * 60, /* without a client a kernel's sandbox is paused after that */
};

struct kernel_body {
	const char *name;
	unsigned idle_s;
	json_t *env;
};

#define AT(member) offsetof(struct kernel_body, member)
static const struct field kernel_fields[] = {
	{ "name", FIELD_STRING, AT(name), 1, KERNEL_NAME_MAX - 1 },
	{ "idle_s", FIELD_WHOLE, AT(idle_s), 60, TIMEOUT_S_MAX },
	{ "env", FIELD_ENV, AT(env), 0, ENV_MAX },
	{ .type = FIELD_END },
};
#undef AT

/* Only the fields of the table; *ret_known holds what ret points into. */
static int body_read(struct request *r, struct kernel_body *ret, json_t **ret_known, struct fault *f)
{
	const struct field *field;
	int err = request_json(r, f);

	if (err < 0)
		return err;
	*ret_known = json_object();
	for (field = kernel_fields; field->type != FIELD_END; field++) {
		json_t *value = json_object_get(r->body, field->name);

		if (value && !json_is_null(value))
			json_object_set(*ret_known, field->name, value);
	}
	return fields_read(kernel_fields, *ret_known, ret, f);
}

/* What front ends call a language's kernel. */
static const char *language_of(const char *name)
{
	static const char prefix[] = "carrel-";

	if (strncmp(name, prefix, sizeof(prefix) - 1) == 0)
		name += sizeof(prefix) - 1;
	return strcmp(name, "python3") == 0 ? "python" : name;
}

static int languages_of(struct request *r, json_t **ret, struct fault *f)
{
	json_t *templates = NULL, *one, *found = NULL;
	size_t i;
	int err = core_templates(r->core, NULL, LIST_LIMIT_MAX, &templates);

	if (err < 0)
		return fault_set(f, -err, 500, "internal", "The templates could not be read.");
	json_array_foreach(json_object_get(templates, "templates"), i, one)
	{
		const char *name = json_string_value(json_object_get(one, "name"));

		if (!found || (name && strcmp(name, r->settings->template_name) == 0))
			found = json_object_get(one, "languages");
	}
	*ret = found ? json_incref(found) : json_array();
	json_decref(templates);
	return 0;
}

static bool has_language(json_t *languages, const char *language)
{
	json_t *one;
	size_t i;

	json_array_foreach(languages, i, one)
	{
		if (strcmp(json_string_value(one), language) == 0)
			return true;
	}
	return false;
}

/* The sandbox's kernel of that language, started if it has none. */
static int kernel_in(struct request *r, const char *sandbox_id, const char *language, json_t **ret,
		     struct fault *f)
{
	struct kernel_spec spec = { .language = language };
	json_t *list = NULL, *one, *found = NULL;
	size_t i;
	int err = core_kernel_list(r->core, r->owner, sandbox_id, LIST_LIMIT_MAX, NULL, &list, f);

	if (err < 0)
		return err;
	json_array_foreach(json_object_get(list, "kernels"), i, one)
	{
		if (!found && strcmp(json_string_value(json_object_get(one, "language")), language) == 0)
			found = json_incref(one);
	}
	json_decref(list);
	err = found ? 0 : core_kernel_create(r->core, r->owner, sandbox_id, &spec, &found, f);
	if (!err)
		err = core_jupyter_kernels(r->core, r->owner, json_string_value(json_object_get(found, "id")),
					   ret, f);
	json_decref(found);
	return err;
}

static int sandbox_for(struct request *r, const struct kernel_body *b, const char *language, json_t **ret,
		       struct fault *f)
{
	struct sandbox_spec spec = {
		.timeout_s = b->idle_s,
		.limits.cpus = 1,
		.pause_on_timeout = true,
		.auto_resume = true,
	};
	json_t *none = json_object();
	int err;

	spec.env = b->env ? b->env : none;
	spec.metadata =
		json_pack("{s:{s:s,s:i}}", "jupyter", "language", language, "idle_s", (int)spec.timeout_s);
	snprintf(spec.template_name, sizeof(spec.template_name), "%s", r->settings->template_name);
	strcpy(spec.engine, "auto");
	err = spec.metadata ? core_sandbox_create(r->core, r->owner, &spec, ret, f) : fault_no_memory(f);
	json_decref(spec.metadata);
	json_decref(none);
	return err;
}

static int kernel_start(struct request *r, const struct kernel_body *b, const char *language, json_t **ret,
			struct fault *f)
{
	struct fault ignored;
	json_t *sandbox = NULL;
	const char *id;
	int err = sandbox_for(r, b, language, &sandbox, f);

	if (err < 0)
		return err;
	id = json_string_value(json_object_get(sandbox, "id"));
	err = kernel_in(r, id, language, ret, f);
	/* Nothing is left of what could not be given. */
	if (err < 0)
		core_sandbox_delete(r->core, r->owner, id, &ignored);
	json_decref(sandbox);
	return err;
}

static int kernel_create(struct request *r, const struct kernel_body *b, json_t **ret, struct fault *f)
{
	json_t *languages = NULL;
	const char *language;
	int err = languages_of(r, &languages, f);

	if (err < 0)
		return err;
	language = json_string_value(json_array_get(languages, 0));
	language = b->name ? language_of(b->name) : language ? language : "python";
	if (has_language(languages, language))
		err = kernel_start(r, b, language, ret, f);
	else
		err = fault_field(f, "unknown_kernel", "name", "There is no kernel named \"%.64s\" here.",
				  language);
	json_decref(languages);
	return err;
}

int jupyter_kernels_create(struct request *r, struct fault *f)
{
	struct kernel_body b = { .idle_s = IDLE_S };
	json_t *known = NULL, *kernel = NULL;
	char location[STORE_ID_MAX + 64];
	int err = body_read(r, &b, &known, f);

	if (!err)
		err = kernel_create(r, &b, &kernel, f);
	json_decref(known);
	if (err < 0)
		return err;
	snprintf(location, sizeof(location), "Location: /jupyter/api/kernels/%s\r\n",
		 json_string_value(json_object_get(kernel, "id")));
	return respond_json_with(r, 201, kernel, location, f);
}

int jupyter_kernels_list(struct request *r, struct fault *f)
{
	json_t *list;
	int err = core_jupyter_kernels(r->core, r->owner, NULL, &list, f);

	return err ? err : respond_json(r, 200, list, f);
}

int jupyter_kernels_get(struct request *r, struct fault *f)
{
	json_t *kernel;
	int err = core_jupyter_kernels(r->core, r->owner, r->id, &kernel, f);

	return err ? err : respond_json(r, 200, kernel, f);
}

int jupyter_kernels_delete(struct request *r, struct fault *f)
{
	int err = core_jupyter_kernel_delete(r->core, r->owner, r->id, f);

	return err ? err : respond_empty(r, 204);
}

int jupyter_kernels_interrupt(struct request *r, struct fault *f)
{
	int err = request_json(r, f);

	if (!err)
		err = core_kernel_interrupt(r->core, r->owner, r->id, f);
	return err ? err : respond_empty(r, 204);
}

int jupyter_kernels_restart(struct request *r, struct fault *f)
{
	json_t *kernel;
	int err = request_json(r, f);

	if (!err)
		err = core_kernel_restart(r->core, r->owner, r->id, &kernel, f);
	if (err)
		return err;
	json_decref(kernel);
	return jupyter_kernels_get(r, f);
}

/* --- kernelspecs --- */

static json_t *spec_model(const char *language)
{
	char shown[KERNEL_NAME_MAX + 16];

	snprintf(shown, sizeof(shown), "%c%s (Carrel)",
		 language[0] >= 'a' && language[0] <= 'z' ? language[0] - 32 : language[0], language + 1);
	return json_pack("{s:s,s:{s:[s,s,s,s,s],s:s,s:s,s:s,s:{}},s:{}}", "name", language, "spec", "argv",
			 "carrel", "kernel", "--language", language, "-f{connection_file}", "display_name",
			 shown, "language", language, "interrupt_mode", "message", "metadata", "resources");
}

int jupyter_specs_list(struct request *r, struct fault *f)
{
	json_t *languages, *specs, *one;
	const char *first;
	size_t i;
	int err = languages_of(r, &languages, f);

	if (err < 0)
		return err;
	specs = json_object();
	json_array_foreach(languages, i, one)
		json_object_set_new(specs, json_string_value(one), spec_model(json_string_value(one)));
	first = json_string_value(json_array_get(languages, 0));
	specs = json_pack("{s:s,s:o}", "default", first ? first : "python", "kernelspecs", specs);
	json_decref(languages);
	return respond_json(r, 200, specs, f);
}

int jupyter_specs_get(struct request *r, struct fault *f)
{
	const char *language = language_of(r->id);
	json_t *languages;
	bool has;
	int err = languages_of(r, &languages, f);

	if (err < 0)
		return err;
	has = has_language(languages, language);
	json_decref(languages);
	if (!has)
		return fault_set(f, ENOENT, 404, "not_found", "There is no such kernel.");
	return respond_json(r, 200, spec_model(language), f);
}
