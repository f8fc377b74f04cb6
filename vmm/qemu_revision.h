/* Part of a snapshot's key: raised with every change of QEMU's argument list
 * or of the guest's command line that a guest can see. */
#ifndef CARREL_QEMU_REVISION_H
#define CARREL_QEMU_REVISION_H

#define QEMU_ARGS_REVISION 3
/* AVX is emulated wrongly by QEMU 7.2: pandas crashes with richer models. arat: without it the guest's kernel
 * takes the APIC's timer for one that stops in sleep, and stays with a periodic tick: 250 interrupts a second
 * in an idle guest, a twentieth of a processor, and sleeps of no less than 4 ms. */
#define QEMU_CPU_TCG "Nehalem,+arat"
#define QEMU_CPU_KVM "host"

#endif
