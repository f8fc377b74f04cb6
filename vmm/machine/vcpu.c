#include "vcpu.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "filter.h"

/* Interrupts a thread in KVM_RUN; the handler has nothing to do. */
#define VCPU_SIGNAL SIGUSR1

static void on_signal(int number)
{
	(void)number;
}

int vcpu_signal_setup(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	return sigaction(VCPU_SIGNAL, &action, NULL) == 0 ? 0 : -errno;
}

static void port_access(struct vcpu *v)
{
	uint8_t *data = (uint8_t *)v->run + v->run->io.data_offset;
	unsigned size = v->run->io.size;

	for (uint32_t i = 0; i < v->run->io.count; i++, data += size) {
		if (v->run->io.direction == KVM_EXIT_IO_OUT)
			bus_write(&v->bus->ports, v->run->io.port, data, size);
		else
			bus_read(&v->bus->ports, v->run->io.port, data, size);
	}
}

static void memory_access(struct vcpu *v)
{
	unsigned len = v->run->mmio.len;

	if (len > BUS_ACCESS_MAX)
		return;
	if (v->run->mmio.is_write)
		bus_write(&v->bus->memory, v->run->mmio.phys_addr, v->run->mmio.data, len);
	else
		bus_read(&v->bus->memory, v->run->mmio.phys_addr, v->run->mmio.data, len);
}

static enum vcpu_end exit_handle(struct vcpu *v)
{
	switch (v->run->exit_reason) {
	case KVM_EXIT_IO:
		pthread_mutex_lock(&v->bus->lock);
		port_access(v);
		pthread_mutex_unlock(&v->bus->lock);
		return VCPU_RUNS;
	case KVM_EXIT_MMIO:
		pthread_mutex_lock(&v->bus->lock);
		memory_access(v);
		pthread_mutex_unlock(&v->bus->lock);
		return VCPU_RUNS;
	case KVM_EXIT_SHUTDOWN:
		return VCPU_SHUTDOWN;
	case KVM_EXIT_INTERNAL_ERROR:
	case KVM_EXIT_FAIL_ENTRY:
		return VCPU_KVM_ERROR;
	default:
		return VCPU_UNKNOWN_EXIT;
	}
}

/* Runs until parking is asked for and nothing is half done, or until the end. */
static enum vcpu_end run(struct vcpu *v)
{
	enum vcpu_end end;

	for (;;) {
		if (ioctl(v->fd, KVM_RUN, 0) == 0) {
			end = exit_handle(v);
			if (end != VCPU_RUNS)
				return end;
		} else if (errno == EINTR && __atomic_load_n(&v->run->immediate_exit, __ATOMIC_ACQUIRE)) {
			return VCPU_RUNS;
		} else if (errno != EINTR && errno != EAGAIN) {
			/* EAGAIN: a vCPU that waits for its wake-up was kicked. */
			return VCPU_KVM_ERROR;
		}
	}
}

/* Parked until wanted; false: to quit. */
static bool park(struct vcpu *v)
{
	bool quit;

	pthread_mutex_lock(&v->lock);
	v->parked = true;
	pthread_cond_broadcast(&v->changed);
	while (!v->wanted && !v->quit)
		pthread_cond_wait(&v->changed, &v->lock);
	v->parked = v->quit;
	quit = v->quit;
	if (!quit)
		__atomic_store_n(&v->run->immediate_exit, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&v->lock);
	return !quit;
}

static void unwanted(struct vcpu *v)
{
	pthread_mutex_lock(&v->lock);
	v->wanted = false;
	pthread_mutex_unlock(&v->lock);
}

/* Parked for good, for the one who waits for that. */
static void stillborn(struct vcpu *v, int err)
{
	pthread_mutex_lock(&v->lock);
	v->filter_error = err;
	v->parked = true;
	pthread_cond_broadcast(&v->changed);
	pthread_mutex_unlock(&v->lock);
}

static void *thread_main(void *arg)
{
	struct vcpu *v = arg;
	enum vcpu_end end;
	int err = filter_enter(FILTER_VCPU);

	if (err)
		stillborn(v, err);
	while (!err && park(v)) {
		end = run(v);
		if (end == VCPU_RUNS)
			continue;
		unwanted(v);
		v->ended(v->arg, v, end);
	}
	return NULL;
}

void vcpu_run(struct vcpu *v)
{
	/* Refused for a guest that has no kvm-clock (yet): it has nothing to be told by. */
	kvm_ioctl(v->fd, KVM_KVMCLOCK_CTRL, NULL);
	pthread_mutex_lock(&v->lock);
	v->wanted = true;
	pthread_cond_broadcast(&v->changed);
	pthread_mutex_unlock(&v->lock);
}

/* immediate_exit first: a thread just about to enter KVM_RUN sees it, one inside sees the signal. */
void vcpu_ask_park(struct vcpu *v)
{
	pthread_mutex_lock(&v->lock);
	v->wanted = false;
	if (!v->parked) {
		__atomic_store_n(&v->run->immediate_exit, 1, __ATOMIC_RELEASE);
		pthread_kill(v->thread, VCPU_SIGNAL);
	}
	pthread_mutex_unlock(&v->lock);
}

void vcpu_wait_parked(struct vcpu *v)
{
	pthread_mutex_lock(&v->lock);
	while (!v->parked)
		pthread_cond_wait(&v->changed, &v->lock);
	pthread_mutex_unlock(&v->lock);
}

/* The vCPUs' threads take the one signal and no other. */
static int thread_start(struct vcpu *v)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	sigdelset(&all, VCPU_SIGNAL);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&v->thread, NULL, thread_main, v);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	v->has_thread = err == 0;
	if (err)
		return -err;
	vcpu_wait_parked(v);
	return v->filter_error;
}

int vcpu_new(struct vcpu *v, const struct kvm *k, struct bus *bus, unsigned index, struct problem *p)
{
	int err;

	v->index = index;
	v->bus = bus;
	v->run_size = k->run_size;
	v->run = NULL;
	pthread_mutex_init(&v->lock, NULL);
	pthread_cond_init(&v->changed, NULL);
	v->fd = kvm_ioctl(k->vm_fd, KVM_CREATE_VCPU, (void *)(unsigned long)index);
	if (v->fd < 0)
		return problem_set(p, v->fd, "KVM_CREATE_VCPU %u", index);
	v->run = mmap(NULL, v->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
	if (v->run == MAP_FAILED) {
		v->run = NULL;
		return problem_set(p, -errno, "mapping vCPU %u", index);
	}
	err = thread_start(v);
	return err ? problem_set(p, err, "the thread of vCPU %u", index) : 0;
}

void vcpu_free(struct vcpu *v)
{
	if (v->has_thread) {
		vcpu_ask_park(v);
		vcpu_wait_parked(v);
		pthread_mutex_lock(&v->lock);
		v->quit = true;
		pthread_cond_broadcast(&v->changed);
		pthread_mutex_unlock(&v->lock);
		pthread_join(v->thread, NULL);
		v->has_thread = false;
	}
	if (v->run)
		munmap(v->run, v->run_size);
	if (v->fd >= 0)
		close(v->fd);
	v->run = NULL;
	v->fd = -1;
}
