/* Part of a snapshot's key: raised with every change of QEMU's argument list
 * or of the guest's command line that a guest can see. */
#ifndef CARREL_QEMU_REVISION_H
#define CARREL_QEMU_REVISION_H

#define QEMU_ARGS_REVISION 2
#define QEMU_CPU_TCG "Nehalem" /* AVX is emulated wrongly by QEMU 7.2: pandas crashes with richer models */
#define QEMU_CPU_KVM "host"

#endif
