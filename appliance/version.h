/* Carrel's version, of the appliance (GET /healthz) and of the command. Grows with each release. */
#ifndef CARREL_VERSION_H
#define CARREL_VERSION_H

#define CARREL_VERSION "0.3.0"

#endif
