#include "serial.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "layout.h"

/* Registers by offset; the first two are the divisor's while LCR_DLAB is set. */
enum { REG_DATA, REG_IER, REG_IIR, REG_LCR, REG_MCR, REG_LSR, REG_MSR, REG_SCR };

#define IER_THRE 0x02
#define IER_MASK 0x0f
#define IIR_NONE 0x01
#define IIR_THRE 0x02
#define IIR_FIFO 0xc0
#define FCR_ENABLE 0x01
#define LCR_DLAB 0x80
#define MCR_LOOP 0x10
#define MCR_MASK 0x1f
#define LSR_EMPTY 0x60 /* transmitter and holding register: always, nothing waits */
#define MSR_READY 0xb0 /* carrier, data set ready, clear to send */

void serial_init(struct serial *s, int out_fd, int irq_fd)
{
	*s = (struct serial){ .out_fd = out_fd, .irq_fd = irq_fd };
}

/* A pipe nobody empties costs its line, not the time of the vCPU that holds the bus. */
void serial_flush(struct serial *s)
{
	ssize_t n = 0;

	if (s->used > 0 && s->out_fd >= 0)
		n = write(s->out_fd, s->line, s->used);
	/* Boot messages are a courtesy: what did not go out is counted like what did. */
	if (n < 0 && errno != EAGAIN)
		s->out_fd = -1;
	s->used = 0;
}

static void transmit(struct serial *s, uint8_t byte)
{
	if (s->out_fd < 0 || s->written >= SERIAL_OUTPUT_MAX)
		return;
	s->written++;
	s->line[s->used++] = (char)byte;
	if (byte == '\n' || s->used == sizeof(s->line) || s->written == SERIAL_OUTPUT_MAX)
		serial_flush(s);
}

static void interrupt(struct serial *s)
{
	const uint64_t one = 1;
	ssize_t n;

	s->state.thre_pending = 1;
	if (!(s->state.ier & IER_THRE) || s->irq_fd < 0)
		return;
	n = write(s->irq_fd, &one, sizeof(one));
	(void)n; /* an eventfd that KVM empties at once is never full */
}

void serial_kick(struct serial *s)
{
	interrupt(s);
}

static uint8_t iir(struct serial *s)
{
	uint8_t fifo = s->state.fcr & FCR_ENABLE ? IIR_FIFO : 0;

	if (!(s->state.ier & IER_THRE) || !s->state.thre_pending)
		return fifo | IIR_NONE;
	s->state.thre_pending = 0;
	return fifo | IIR_THRE;
}

/* In loop mode the four outputs come back as inputs: how Linux finds out that a port is there. */
static uint8_t msr(const struct serial *s)
{
	uint8_t mcr = s->state.mcr;

	if (!(mcr & MCR_LOOP))
		return MSR_READY;
	return (uint8_t)((mcr & 0x0c) << 4 | (mcr & 0x02) << 3 | (mcr & 0x01) << 5);
}

static uint8_t reg_read(struct serial *s, unsigned reg)
{
	bool dlab = s->state.lcr & LCR_DLAB;

	switch (reg) {
	case REG_DATA:
		return dlab ? s->state.dll : 0;
	case REG_IER:
		return dlab ? s->state.dlm : s->state.ier;
	case REG_IIR:
		return iir(s);
	case REG_LCR:
		return s->state.lcr;
	case REG_MCR:
		return s->state.mcr;
	case REG_LSR:
		return LSR_EMPTY;
	case REG_MSR:
		return msr(s);
	default:
		return s->state.scr;
	}
}

static void data_write(struct serial *s, uint8_t value)
{
	if (s->state.lcr & LCR_DLAB) {
		s->state.dll = value;
		return;
	}
	if (!(s->state.mcr & MCR_LOOP))
		transmit(s, value);
	interrupt(s);
}

static void ier_write(struct serial *s, uint8_t value)
{
	bool enabled = !(s->state.ier & IER_THRE) && (value & IER_THRE);

	if (s->state.lcr & LCR_DLAB) {
		s->state.dlm = value;
		return;
	}
	s->state.ier = value & IER_MASK;
	/* The transmitter is empty already: who starts to ask is told. */
	if (enabled)
		interrupt(s);
}

static void reg_write(struct serial *s, unsigned reg, uint8_t value)
{
	switch (reg) {
	case REG_DATA:
		data_write(s, value);
		break;
	case REG_IER:
		ier_write(s, value);
		break;
	case REG_IIR:
		s->state.fcr = value;
		break;
	case REG_LCR:
		s->state.lcr = value;
		break;
	case REG_MCR:
		s->state.mcr = value & MCR_MASK;
		break;
	case REG_SCR:
		s->state.scr = value;
		break;
	default: /* the status registers are not written */
		break;
	}
}

static void window_read(void *arg, uint64_t offset, void *ret, unsigned len)
{
	if (len == 1)
		*(uint8_t *)ret = reg_read(arg, (unsigned)offset);
}

static void window_write(void *arg, uint64_t offset, const void *data, unsigned len)
{
	if (len == 1)
		reg_write(arg, (unsigned)offset, *(const uint8_t *)data);
}

struct bus_window serial_window(struct serial *s)
{
	return (struct bus_window){ .base = LAYOUT_SERIAL_PORT,
				    .size = SERIAL_PORTS,
				    .read = window_read,
				    .write = window_write,
				    .arg = s };
}
