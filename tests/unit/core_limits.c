/* UNIT: appliance/core/limits.c LIBS: -ljansson */
/* The table of limits: every row has sound bounds, and is filled, kept, shown and told as it says. */
#include "appliance/core/limits.h"
#include "check.h"

#include <string.h>

enum { WHOLE, NUMBER };
enum { IF_SET, ALWAYS };
enum { OUTSIDE, INSIDE };

static const struct row {
	const char *name;
	double least, most, usual;
	int type, shown, told;
} rows[] = {
#define LIMIT(name, type, least, most, usual, shown, told) { #name, least, most, usual, type, shown, told },
#include "link/limits.def"
#undef LIMIT
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static double number_of(json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

static void bounds(void)
{
	for (int i = 0; i < ROWS; i++) {
		CHECK(rows[i].least > 0 && rows[i].least < rows[i].most);
		CHECK(rows[i].usual == 0 || (rows[i].usual >= rows[i].least && rows[i].usual <= rows[i].most));
		CHECK(rows[i].type == NUMBER || rows[i].most == (double)(unsigned)rows[i].most);
		/* What is always shown has something to show. */
		CHECK(rows[i].shown == IF_SET || rows[i].usual > 0);
	}
}

/* Nothing was set: the usual, and of what is shown only when it was set, nothing. */
static void usual(void)
{
	struct limits l = { 0 };
	json_t *shown, *told;

	limits_fill(&l, NULL);
	shown = limits_json(&l);
	told = limits_inside(&l);
	for (int i = 0; i < ROWS; i++) {
		const struct row *row = &rows[i];

		CHECK(number_of(shown, row->name) == (row->shown == ALWAYS ? row->usual : 0));
		CHECK(!json_object_get(shown, row->name) == (row->shown == IF_SET));
		CHECK(number_of(told, row->name) == (row->told == INSIDE ? row->usual : 0));
	}
	json_decref(shown);
	json_decref(told);
}

/* The sandbox's own before the template's; all of it survives being kept. */
static void given(void)
{
	json_t *recipe = json_object(), *shown, *told, *again;
	struct limits l = { .pids = 77 }, kept;

	for (int i = 0; i < ROWS; i++)
		json_object_set_new(recipe, rows[i].name,
				    rows[i].type == NUMBER ? json_real(rows[i].most) : json_integer((json_int_t)rows[i].most));
	limits_fill(&l, recipe);
	CHECK_INT(l.pids, 77);
	shown = limits_json(&l);
	told = limits_inside(&l);
	for (int i = 0; i < ROWS; i++) {
		double want = strcmp(rows[i].name, "pids") == 0 ? 77 : rows[i].most;

		CHECK(number_of(shown, rows[i].name) == want);
		CHECK(number_of(told, rows[i].name) == (rows[i].told == INSIDE ? want : 0));
	}
	limits_read(&kept, shown);
	again = limits_json(&kept);
	CHECK(json_equal(shown, again));
	json_decref(recipe);
	json_decref(shown);
	json_decref(told);
	json_decref(again);
}

static void same(void)
{
	struct limits a = { .memory_mb = 512 }, b = { .memory_mb = 512 };

	b.cpu_s = 60;
	b.cpus = 2;
	CHECK(limits_inside_same(&a, &b));
	b.pids = 512; /* as it is anyway */
	CHECK(limits_inside_same(&a, &b));
	b.open_files = 100;
	CHECK(!limits_inside_same(&a, &b));
}

/* What an agent does not know is named, unless nobody asked for it. */
static void held(void)
{
	struct limits l = { .memory_mb = 512, .disk_mb = 64, .cpu_s = 60, .output_mb = 1 };
	json_t *names = json_pack("[s,i,s]", "pids", 1, "open_files");

	CHECK(limits_unheld(&l, NULL) == NULL);
	l.pids = 100;
	CHECK_STR(limits_unheld(&l, NULL), "pids");
	CHECK(limits_unheld(&l, names) == NULL);
	l.inodes = 100;
	CHECK_STR(limits_unheld(&l, names), "inodes");
	json_decref(names);
}

int main(void)
{
	bounds();
	usual();
	given();
	same();
	held();
	return 0;
}
