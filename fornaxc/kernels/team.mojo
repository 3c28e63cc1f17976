"""How threads share work: each time anew, or as a team that goes through many steps together.

To wake the runtime's threads takes longer than many a step. A team is woken once. Each of its threads goes through all steps; of each it takes parts that
none has taken yet, and goes on when all are done. No thread waits for one that has not come: what it could do is done without it. Between the parts a
thread may do nothing but what all may do at once.
"""

from max.algorithm import sync_parallelize
from max.runtime.asyncrt import parallelism_level
from std.atomic import Atomic
from std.ffi import external_call
from std.memory import alloc
from std.sys import CompilationTarget, llvm_intrinsic

comptime Counters = Pointer[Int64, UntrackedOrigin[mut=True]]
comptime COUNTERS = 16  # numbers of a step: the parts taken, and half of them later the parts done, in lines of the cache of their own
comptime SPINS = 4096  # before a thread that waits lets others run
comptime WAKE = 8  # times the work that a team shares, it takes for waking threads to pay: those that wait for nothing sleep, and wake late
comptime FINE = 4  # parts for each thread of a team, so that the others take what a slow one leaves


struct Team(ImplicitlyCopyable):
    """One thread's view of its team of `threads`; without `counters`, COUNTERS for each call of `share` and 0 at first, it is no team."""

    var threads: Int
    var counters: Optional[Counters]
    var step: Int

    def __init__(out self):
        self = Team(parallelism_level(None))

    def __init__(out self, threads: Int, counters: Optional[Counters] = None):
        self.threads = threads
        self.counters = counters
        self.step = 0

    def parts(self, work: Int, least: Int, most: Int) -> Int:
        """In how many parts to share something: in one where its `work` is below `least`, or below WAKE times that where threads must be woken
        first, and never in more than `most`."""
        if self.counters:
            return 1 if work < least else max(1, min(self.threads * FINE, most))
        return 1 if work < least * WAKE else max(1, min(self.threads, most))


@always_inline
def share[F: def(Int) -> None](mut team: Team, work: F, parts: Int):
    """`work` of each number below `parts`, by this thread and others; all are done when it returns. All threads of a team call it alike."""
    if not team.counters:
        if parts == 1:
            work(0)
        else:
            sync_parallelize(work, parts)
        return
    var taken = team.counters.value() + team.step * COUNTERS
    var done = taken + COUNTERS // 2
    team.step += 1
    while True:
        var part = Int(Atomic.fetch_add(taken, 1))
        if part >= parts:
            break
        work(part)
        _ = Atomic.fetch_add(done, 1)
    var spins = 0
    while Int(Atomic.load(done)) < parts:
        spins += 1
        comptime if CompilationTarget.is_x86():
            llvm_intrinsic["llvm.x86.sse2.pause", NoneType]()
        if spins > SPINS:
            _ = external_call["sched_yield", Int32]()


@always_inline
def together[F: def(Team) -> None](work: F, threads: Int, shares: Int):
    """`work` by each of `threads`, one team; it calls `share` at most `shares` times."""
    if threads == 1:
        work(Team(1))
        return
    var numbers = shares * COUNTERS
    var counters = rebind[Counters](alloc[Int64](numbers, alignment=64))
    for i in range(numbers):
        counters.store(i, 0)

    def member(_thread: Int) {imm}:
        work(Team(threads, counters))

    sync_parallelize(member, threads)
    counters.free()
