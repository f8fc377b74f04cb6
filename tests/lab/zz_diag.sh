diag() {
  for p in $(pgrep -x carrel-vmm); do
    echo "== carrel-vmm $p"; for t in /proc/$p/task/*; do echo "$(cat $t/comm) $(cat $t/wchan) $(cat $t/syscall) $(grep ctxt $t/status | tr '\n' ' ')"; done
    ls -l /proc/$p/fd | awk '{print $9,$10,$11}'
    cat /proc/$p/fdinfo/* 2>/dev/null | grep -E 'eventfd-count|tfd' | head -60
  done
  mount -t debugfs none /sys/kernel/debug 2>/dev/null
  for d in /sys/kernel/debug/kvm/*-*/; do echo $d; (cd $d; grep -H . irq_injections halt_exits io_exits mmio_exits exits vcpu0/* 2>/dev/null | head -30); done
  ss -xp | grep -E 'agent|@' | head -20
  for p in $(pgrep -f engine_conformance); do echo "py $p $(cat /proc/$p/wchan) $(cat /proc/$p/syscall)"; done
}
N=${1:-6}
for i in $(seq $N); do
  date +%T
  ( sleep 170; echo "DIAG1"; diag; sleep 20; echo DIAG2; diag ) & w=$!
  MONITOR=carrel-vmm timeout -s ABRT 230 python3 -X faulthandler tests/integration/engine_conformance.py kvm link_in_flight
  echo "run $i: $?"
  kill $w; wait $w 2>/dev/null
done
