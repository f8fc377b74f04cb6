#include "source.h"

#include <stdlib.h>

struct source *source_new(struct engine *engine, const struct set *set, const char *started, bool temporary)
{
	struct source *s = calloc(1, sizeof(*s));

	if (s)
		*s = (struct source){
			.refs = 1, .started = started, .temporary = temporary, .engine = engine, .set = *set
		};
	return s;
}

struct source *source_ref(struct source *s)
{
	s->refs++;
	return s;
}

void source_unref(struct source *s)
{
	if (!s || --s->refs > 0)
		return;
	if (s->temporary)
		set_drop(&s->set);
	else
		set_close(&s->set);
	free(s);
}
