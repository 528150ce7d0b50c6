"""`smg._fast.ring`: a key's worker, and a worker that comes and goes."""

import pyperf

from smg._fast.ring import Ring, place_of


def ring_of(workers: int) -> Ring:
    ring = Ring()
    for worker in range(workers):
        ring.add(f"http://10.0.0.{worker}:30000", worker)
    return ring


def come_and_go(ring: Ring) -> None:
    ring.remove(3)
    ring.add("http://10.0.0.3:30000", 3)
    ring.pick(0)


def main() -> None:
    runner = pyperf.Runner(program_args=("-m", "benches.micro.ring"))
    place = place_of(b"session-7")
    for workers in (8, 4096):
        ring = ring_of(workers)
        flags = bytes([1] * workers)
        runner.bench_func(f"pick among {workers}", ring.pick, place, flags)
        runner.bench_func(f"one of {workers} comes and goes", come_and_go, ring)


if __name__ == "__main__":
    main()
