/* The monitor's life: requests from its owner until the guest or the owner ends it. */
#ifndef CARREL_MACHINE_SERVE_H
#define CARREL_MACHINE_SERVE_H

/* 0: the guest ended, or the owner asked or went away; negative errno: the machine failed, and the log
 * (stderr) says why. */
int serve(int control_fd, int kvm_fd);

#endif
