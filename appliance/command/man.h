/* The manual page, made from the same table of verbs as the help. */
#ifndef CARREL_MAN_H
#define CARREL_MAN_H

#include <stdio.h>

/* Paragraphs that the help and the page share. */
extern const char help_where[], help_codes[];

/* Source for man(7), ASCII only. */
void man_print(FILE *to);

#endif
