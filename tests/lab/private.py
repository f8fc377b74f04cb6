"""What a monitor's process has for itself, from its smaps."""
import re

HEAD = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) ")


def available_mb():
    with open("/proc/meminfo", encoding="ascii") as f:
        return int(re.search(r"MemAvailable: +(\d+)", f.read()).group(1)) >> 10


def private_kib(pid, memory_mb):
    """-> (of the guest's memory, of everything else): KiB that only this process has and that were written"""
    guest = rest = size = 0
    with open(f"/proc/{pid}/smaps", encoding="ascii", errors="replace") as f:
        for line in f:
            if m := HEAD.match(line):
                size = int(m.group(2), 16) - int(m.group(1), 16)
            elif line.startswith("Private_Dirty:"):
                kib = int(line.split()[1])
                if size >= (memory_mb << 20) // 2:
                    guest += kib
                else:
                    rest += kib
    return guest, rest
