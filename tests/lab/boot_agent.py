#!/usr/bin/python3
"""The image as it is boots to its agent, which answers the link's greeting."""
import time

from guests import Lab, agent_hello


def main():
    with Lab() as lab:
        began = time.monotonic()
        _, port = lab.boot_agent("one", memory_mb=512)
        agent_hello(port)
        print(f"the agent answered {time.monotonic() - began:.1f} s after start")
        agent_hello(port)


if __name__ == "__main__":
    main()
