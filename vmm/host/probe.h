/* What this host can run: 0, or -ENODEV and the reason as a sentence. */
#ifndef CARREL_PROBE_H
#define CARREL_PROBE_H

int probe_tcg(char *ret_why, unsigned size);
int probe_kvm(char *ret_why, unsigned size);
int probe_kvm_qemu(char *ret_why, unsigned size);
int probe_jail(char *ret_why, unsigned size);

#endif
