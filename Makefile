# Carrel: `make run`, `make test`; `make help` lists the rest.
#
# Host programs are built into build/, guest programs (agent, kernels, init)
# inside a Debian trixie build chroot into build/guest/ by kernels/image/build.
# SANITIZER=address|undefined|thread builds into build/$(SANITIZER)/.

SHELL := /bin/bash
.DEFAULT_GOAL := all
MAKEFLAGS += --no-builtin-rules

CC ?= cc
ifeq ($(origin CC),default)
CC := cc
endif
PYTHON ?= /usr/bin/python3
V ?= 0
Q := $(if $(filter 1,$(V)),,@)

# Settings are conf/run's (conf/carrel.conf shows them): those given here or in the environment win over the
# configuration file, so that none has a default here.
TEMPLATE ?= python

SANITIZER ?=
comma := ,
OUT ?= build$(if $(SANITIZER),/$(subst $(comma),-,$(SANITIZER)))

# Warnings that stop the build, by name. No -Wextra: what it adds beyond this
# list (missing-field-initializers) fights designated initialisers.
WARN := -Wall -Wshadow -Wundef -Wformat=2 -Wpointer-arith -Wwrite-strings
ERR := implicit-function-declaration incompatible-pointer-types int-conversion \
	return-type strict-prototypes missing-prototypes old-style-definition \
	shadow undef format format-security pointer-arith write-strings \
	uninitialized maybe-uninitialized unused-variable unused-function \
	unused-but-set-variable unused-label address array-bounds sign-compare \
	switch implicit-fallthrough=3 nonnull vla type-limits parentheses \
	discarded-qualifiers pointer-sign misleading-indentation init-self
WARN += $(addprefix -Werror=,$(ERR))

CPPFLAGS += -D_GNU_SOURCE -I. -Ikernels
CFLAGS ?= -O2 -g
CFLAGS_ALL = -std=gnu11 $(WARN) $(CFLAGS) -fstack-protector-strong -fno-omit-frame-pointer \
	-fno-strict-aliasing -fvisibility=hidden -pthread -MMD -MP
ifneq ($(SANITIZER),)
CFLAGS_ALL += -fsanitize=$(SANITIZER) -fno-sanitize-recover=all -Wno-error=maybe-uninitialized
LDFLAGS += -fsanitize=$(SANITIZER)
else
CPPFLAGS += -D_FORTIFY_SOURCE=2
LDFLAGS += -Wl,-z,relro,-z,now
endif

srcs = $(sort $(filter %.c,$(1)) $(wildcard $(addsuffix /*.c,$(filter-out %.c,$(1)))))
objs = $(patsubst %.c,$(OUT)/obj/%.o,$(call srcs,$(1)))

# One row per program: the folders it is made of, then its libraries.
LINK_DIRS := kernels/link
CARRELD_DIRS := appliance/front appliance/door appliance/hatch appliance/local appliance/jupyter appliance/core appliance/store vmm/host $(LINK_DIRS)
CARRELD_LIBS := -lfcgi -ljansson -lzmq -lsqlite3 -lnghttp2 -luv -lwebsockets -lcrypto
SPAWN_DIRS := appliance/spawn vmm/jail
SPAWN_LIBS := -lseccomp
KEEPER_DIRS := vmm/keeper vmm/jail
KEEPER_LIBS := -lseccomp
VMM_DIRS := vmm/machine vmm/virtio vmm/snapshot
VMM_LIBS := -luring -lseccomp
COMMAND_DIRS := appliance/command appliance/kernel appliance/local appliance/jupyter appliance/core/set_sum.c
# ZeroMQ's side of a kernel, as the kernels themselves have it: for the hatch and `carrel kernel`.
ZMQ_PARTS := $(addprefix kernels/core/,wire.c message.c connection.c sock.c)
COMMAND_LIBS := -lcurl -ljansson -lzmq -lwebsockets -luv -lcrypto -lsqlite3

HOST_PROGRAMS := carreld carrel-spawn carrel-keeper carrel-vmm carrel carrel-preload.so

all: $(addprefix $(OUT)/,$(HOST_PROGRAMS)) page ## build the host programs and the page

# npm only bundles the page; where it or its registry is away, a page that says so takes its place.
page: build/www/carrel.js ## bundle the notebook page into build/www
build/www/carrel.js: $(wildcard www/src/* www/static/*) www/build www/build.mjs www/package.json www/tsconfig.json www/package-lock.json
	@echo "  PAGE  build/www"
	$(Q)www/build build/www

$(OUT)/carreld: $(call objs,appliance $(CARRELD_DIRS) $(ZMQ_PARTS))
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) -pthread -o $@ $^ $(CARRELD_LIBS)
$(OUT)/carrel-spawn: $(call objs,$(SPAWN_DIRS))
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(SPAWN_LIBS)
$(OUT)/carrel-keeper: $(call objs,$(KEEPER_DIRS))
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(KEEPER_LIBS)
# Static, since it is the only file of its jail; a sanitizer does not go with that.
$(OUT)/carrel-vmm: $(call objs,$(VMM_DIRS))
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) $(if $(SANITIZER),,-static) -pthread -o $@ $^ $(VMM_LIBS)
$(OUT)/carrel: $(call objs,$(COMMAND_DIRS) $(ZMQ_PARTS))
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(COMMAND_LIBS)
# Loaded into QEMU, so never built with a sanitizer.
$(OUT)/carrel-preload.so: vmm/preload/preload.c vmm/preload/load.h vmm/pages.h
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(CPPFLAGS) -std=gnu11 $(WARN) -O2 -fPIC -shared -o $@ $<

$(OUT)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_ALL) -c -o $@ $<

# Guest programs: run inside the build chroot (kernels/image/build does that).
GUEST_CFLAGS := $(shell $(PYTHON)-config --includes 2>/dev/null)
guest: $(OUT)/carrel-agent $(OUT)/carrel-python $(OUT)/carrel-bash $(OUT)/carrel-init ## (inside the build chroot) the guest programs
$(OUT)/carrel-agent: $(call objs,kernels/agent $(LINK_DIRS))
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) -pthread -o $@ $^ -lnghttp2 -luv -ljansson -lzmq -lcrypto
$(OUT)/carrel-python: CPPFLAGS += $(GUEST_CFLAGS)
$(OUT)/carrel-python: $(call objs,kernels/core kernels/python)
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) -rdynamic -pthread -o $@ $^ $$($(PYTHON)-config --ldflags --embed) -ljansson -lzmq -lcrypto
# The shell's own part is inside the program.
$(OUT)/obj/kernels/bash/shell.o: kernels/bash/shell.bash
$(OUT)/carrel-bash: $(call objs,kernels/core kernels/bash)
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) -pthread -o $@ $^ -ljansson -lzmq -lcrypto
$(OUT)/carrel-init: $(call objs,kernels/image/init)
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) -static -o $@ $^

# Unit tests: tests/unit/NAME.c links everything in the folders its first line
# names (but no daemon's main), and files named there one by one:
#   /* UNIT: kernels/link appliance/store */  and the libraries after LIBS:
UNIT_SRCS := $(sort $(wildcard tests/unit/*.c))
UNIT_BINS := $(patsubst tests/unit/%.c,$(OUT)/unit/%,$(UNIT_SRCS))
unit: $(UNIT_BINS) ## build the unit tests
.SECONDEXPANSION:
DAEMON_MAIN := $(OUT)/obj/appliance/carreld.o $(OUT)/obj/kernels/bash/main.o $(OUT)/obj/vmm/machine/main.o
unit_dirs = $(shell sed -n '1s,.*UNIT:\(.*\)LIBS:.*,\1,p' $(1))
unit_libs = $(shell sed -n '1s,.*LIBS:\(.*\)\*/.*,\1,p' $(1))
$(OUT)/unit/%: $(OUT)/obj/tests/unit/%.o $$(filter-out $$(DAEMON_MAIN),$$(call objs,$$(call unit_dirs,tests/unit/$$*.c)))
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) -pthread -o $@ $^ $(call unit_libs,tests/unit/$*.c)

run: ## start everything in the foreground, Ctrl-C stops it
	@conf/run

image: ## build the image of TEMPLATE into CARREL_CACHE; REFRESH=1: from Debian's packages of today
	@conf/packages/install host
	@kernels/image/build $(if $(REFRESH),--refresh) $(TEMPLATE)

PREFIX ?= /usr
install: all ## into DESTDIR and PREFIX (/usr), with units for systemd
	@conf/install "$(DESTDIR)" "$(PREFIX)"

deb: all ## a Debian package, build/carrel_VERSION_ARCH.deb
	@conf/deb

setup: ## install what building and testing need
	@conf/packages/install host
	@conf/packages/install node || true # www/build says what is missing without it
	@conf/packages/install test

# Unit tests run with both sanitizers; everything else runs the real build.
test: setup ## set-up if needed, then every test
	@$(MAKE) -s all
	@$(MAKE) -s unit SANITIZER=address,undefined
	@kernels/image/build $(TEMPLATE) >/dev/null
	@tests/run $(TESTS)

check: ## quick checks: unit tests and the sources' form
	@$(MAKE) -s all
	@$(MAKE) -s unit SANITIZER=address,undefined
	@tests/run --kind unit --kind form

bench: all ## the benchmark table
	@tests/bench/run
	@tests/bench/neighbour.py

# The guests of the lab's tests, each alone in an initramfs.
LAB_GUESTS := build/lab/hello build/lab/guest build/lab/files
build/lab/hello: tests/lab/hello.c
build/lab/guest: tests/lib/engine_guest.c
build/lab/files: tests/lab/files.c
# What drives an engine line by line, in the tests of the host's machines and in the lab.
build/lab/driver: tests/lib/engine_driver.c $(wildcard vmm/host/*.c vmm/host/*.h vmm/*.h)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) -D_GNU_SOURCE -I. -std=gnu11 -O1 -g -o $@ $(filter %.c,$^) -luv -ljansson
# Watches the monitor's system calls, by the tables that its filters are made of.
build/lab/calls: $(call objs,tests/lab/calls.c vmm/machine/filter.c vmm/machine/filter_rules.c)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS) -static -o $@ $^ -lseccomp
$(LAB_GUESTS):
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) -D_GNU_SOURCE -I. -std=gnu11 $(WARN) -O1 -static -o $@ $<

lab: $(addprefix build/,carrel-vmm carrel-spawn carrel-keeper carrel-preload.so carreld lab/driver lab/calls) $(LAB_GUESTS) page ## the KVM monitor's tests, in an outer machine where there is no KVM; CMD=… runs that
	@tests/lab/run $(CMD)

FUZZ_S ?= 60
fuzz: ## every fuzzer for FUZZ_S seconds each
	@FUZZ_S=$(FUZZ_S) tests/fuzz/run

clean: ## remove build/ (not the image cache)
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

-include $(shell find $(OUT)/obj -name '*.d' 2>/dev/null)
.PHONY: all page guest unit run image install deb setup test check bench lab fuzz clean help
.SECONDARY:
