/* The tables, as steps from one version to the next. For db.c only. */
#ifndef CARREL_SCHEMA_H
#define CARREL_SCHEMA_H

extern const char *const schema_steps[];
/* The version that this program writes, and the number of steps. */
extern const int schema_version;

#endif
