/* What carreld was told at start: command line and configuration, parsed once. */
#ifndef CARREL_SETTINGS_H
#define CARREL_SETTINGS_H

#include "fault.h"

/* A number that was not given: what suits the host. */
#define SETTINGS_BY_HOST (~0u)

enum {
	HISTORY_DAYS_MAX = 36500,
	HISTORY_MB_MAX = 1024 * 1024 * 1024,
};

struct settings {
	char state[256];     /* $STATE as carreld sees it: carrel.db, token, run/, spool/ */
	char run[256];       /* sockets of this run: fcgi.sock, stream.sock, spawn.sock */
	char connections[256]; /* $STATE/connections as local Jupyter clients see it */
	char cache[256];     /* CARREL_CACHE: images/ (read-only here), snapshots/ (ours) */
	char image[512];     /* directory of the image of the default template */
	char builds[256];    /* queue and logs of conf/builder, or "": there is none */
	char engine[16];     /* "auto", "kvm", "tcg", "jail" */
	char allow_jail[8];  /* "no", "yes": a sandbox that names the engine jail gets it beside the engine above */
	char monitor[16];    /* of the engine kvm: "auto", "carrel-vmm", "qemu" */
	char template_name[64];
	char audit_syslog[108]; /* "no", "yes" (/dev/log), or the path of a syslog socket */
	unsigned short_threads;  /* FastCGI workers for short requests */
	unsigned stream_threads; /* FastCGI workers held by streams */
	unsigned memory_mb;      /* RAM that sandboxes may use together; 0: three quarters of the host's */
	unsigned sandboxes_per_owner; /* that are not paused */
	unsigned cpu_share; /* CPUs that sandboxes may have together, for each of the host's */
	unsigned pool;      /* machines that wait for sandboxes; 0: none. SETTINGS_BY_HOST: one a CPU or less */
	unsigned pool_max;  /* how many there may be when many are asked for; 0: four times pool */
	unsigned history_days, history_mb; /* how long, and how much in all, history is kept; an owner may have its own */
	unsigned history_sweep_s;     /* between two looks for what is to go */
	unsigned paused_keep_s;       /* a paused sandbox is kept so long, then it ends */
};

/* argv as of main(); unknown options are an error that names them. */
int settings_parse(struct settings *s, int argc, char **argv, struct fault *f);

#endif
