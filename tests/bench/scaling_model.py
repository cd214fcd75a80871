#!/usr/bin/env python3
"""Says how long a run takes on 1 to 4,096 processes, from what each stage costs on this machine: where does process 0 saturate?

    scaling_model.py measure --build build > costs.json     measures the costs by short runs of the program (some minutes, 6 GB below --work)
    scaling_model.py validate COSTS --build build           predicted against measured, for 1 and 2 processes on this machine
    scaling_model.py table COSTS                            the tables of docs/performance.md
    scaling_model.py run COSTS --mode tensor --ranks 1000 --processes 1024 [--threads 4] ...

The model is a discrete-event simulation of mpi/scheduler.cpp: process 0 hands out the largest item to whoever is free; a worker reads, compares and encodes;
its batches of rows wait in the process's queue until process 0 has room for them in its window, pass its event loop and are inserted by its one writer
thread. Then links are exchanged and the indexes are built. Not in the model: the start of the MPI job, the way of the result to the disk, and what limits the storage as a whole
(unless --storage does).
"""
import argparse
import dataclasses
import heapq
import itertools
import json
import math
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20

# Constants of the program, under the names that they have there.
BATCH_BYTES = MIB
WINDOW_BYTES = 64 * MIB
QUEUE_BYTES = 8 * MIB
TENSOR_FILES_LOOKED_AT = 256
LOOKS_AT_ONCE = 16
ROUND_BYTES = 32 * MIB
SHARE_OF_COMMITS = 10


# --- the model -----------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Costs:
    """Seconds of one core, by what they are for. `measure` says how each is found."""

    plan_per_item: float  # process 0 looks at the directories of a (step, rank), with several threads
    plan_per_file: float  # ... lists a tensor file
    read_per_byte: float  # JSON of both sides to graphs
    compare_per_row: float
    encode_per_row: float
    tensor_per_byte: float  # reading from the page cache, metrics
    tensor_per_file: float
    insert_per_row: float  # writer thread of process 0
    insert_per_tensor: float  # its row in msvis_tensor
    floor_per_row: float  # the same row inserted by SQLite alone
    index_per_row: float  # at a single row; grows by index_growth with each doubling
    index_growth: float
    loop_per_item: float  # event loop of process 0: all messages of an item that come once
    loop_per_byte: float  # rows that come from another process
    link_per_record: float  # on process 0: all of the exchange, the links' way into the file included

    def index(self, rows):
        return rows * max(0.0, self.index_per_row + self.index_growth * math.log2(max(rows, 1)))


@dataclasses.dataclass(frozen=True)
class Machine:
    processes: int = 1
    threads: int = 1  # workers of a process
    processes_per_node: int = 1
    cores_per_node: int = 2
    latency: float = 2e-6  # seconds of a message between two processes
    bandwidth: float = 10e9  # bytes a second into process 0
    poll: float = 5e-4  # until the event loop of a process, which sleeps in between, sees a message
    storage: float = math.inf  # bytes a second that all processes together read
    node_reads: float = math.inf  # ... that a node reads, an equal share for each of its processes
    look: float = 0.0  # seconds until the storage answers what size a file has

    @property
    def nodes(self):
        return -(-self.processes // self.processes_per_node)


@dataclasses.dataclass(frozen=True)
class Item:
    """A (step, rank): both sides together where it says nothing else."""

    json_bytes: int
    target_rows: int
    golden_rows: int
    row_bytes: float
    tensor_bytes: int = 0
    tensor_files: int = 0
    tensors: int = 0  # compared
    link_records: int = 0

    @property
    def rows(self):
        return self.target_rows + self.golden_rows


@dataclasses.dataclass
class Part:
    """What a process is given: an item, or a share of one."""

    compute: float  # seconds on one thread
    divisible: float  # seconds that all threads of the process share
    storage_bytes: float
    rows: float
    encode: float  # seconds for all rows
    insert: float
    bytes: float
    cost: float


@dataclasses.dataclass
class Prediction:
    plan: float = 0
    items: float = 0
    links: float = 0
    finish: float = 0
    floor: float = 0  # SQLite alone: rows and indexes
    writer_busy: float = 0
    loop_busy: float = 0
    worker_busy: float = 0
    rows_inserted: float = 0
    peak_window: float = 0
    peak_queue: float = 0
    result_bytes: float = 0

    @property
    def total(self):
        return self.plan + self.items + self.links + self.finish


def shares_of(items, processes):
    """As mpi/program.cpp: one process after the other goes to the item whose shares are largest."""
    shares = [1] * len(items)
    heap = [(-item.tensor_bytes, number) for number, item in enumerate(items)]
    heapq.heapify(heap)
    for _ in range(processes - len(items)):
        _, number = heapq.heappop(heap)
        shares[number] += 1
        heapq.heappush(heap, (-items[number].tensor_bytes / shares[number], number))
    return shares


def parts_of(costs, items, tensor_mode, processes):
    """Parts of the first round and of the second, in which nodes that lie across shares are finished."""
    divided = tensor_mode and len(items) < processes
    shares = shares_of(items, processes) if divided else [1] * len(items)
    first, second = [], []
    for item, count in zip(items, shares):
        whole = item.json_bytes * costs.read_per_byte + item.rows * costs.compare_per_row
        tensor_seconds = item.tensor_bytes * costs.tensor_per_byte + item.tensor_files * costs.tensor_per_file
        for share in range(count):
            rows = item.target_rows / count + (item.golden_rows if share == 0 else 0)
            first.append(Part(compute=whole, divisible=tensor_seconds / count, storage_bytes=(item.tensor_bytes / count + item.json_bytes), rows=rows,
                              encode=rows * costs.encode_per_row, insert=rows * costs.insert_per_row + item.tensors / count * costs.insert_per_tensor,
                              bytes=rows * item.row_bytes, cost=(item.tensor_bytes + item.json_bytes) / count))
        if count > 1:
            second.append(Part(compute=whole, divisible=0, storage_bytes=item.json_bytes, rows=0, encode=0, insert=0, bytes=0, cost=item.json_bytes))
    return first, second


class Schedule:
    """One call of run_schedule."""

    def __init__(self, costs, machine, parts, tensor_mode, prediction):
        self.costs, self.machine, self.prediction = costs, machine, prediction
        self.seats = 1 if tensor_mode else machine.threads  # items at a time of a process
        self.threads_of_item = machine.threads if tensor_mode else 1
        self.waiting = deque(sorted(parts, key=lambda part: -part.cost))
        self.left = len(parts)
        self.now = 0.0
        self.events = []
        self.order = itertools.count()
        self.load = [0] * machine.processes
        self.free = [(0, process == 0, process) for process in range(machine.processes)]  # by load, process 0 last; may hold outdated loads
        heapq.heapify(self.free)
        self.active = [0] * machine.nodes  # worker threads that compute, by node
        self.queued = [0.0] * machine.processes
        self.blocked = [deque() for _ in range(machine.processes)]
        self.ready = [deque() for _ in range(machine.processes)]  # batches offered
        self.offers = deque()
        self.in_flight = 0.0
        self.loop_free = self.wire_free = self.writer_free = self.storage_free = 0.0

    def at(self, when, what, *arguments):
        heapq.heappush(self.events, (when, next(self.order), what, arguments))

    def run(self):
        self.hand_out()
        while self.events:
            self.now, _, what, arguments = heapq.heappop(self.events)
            what(*arguments)
        assert self.left == 0 and not self.waiting and not self.offers
        return max(self.now, self.writer_free)

    def slowness(self, node):
        """How much longer a thread takes on a node with more busy threads than cores, as things are when it begins."""
        threads = self.active[node]
        if node == 0:
            threads += self.writer_free > self.now
        return max(1.0, threads / self.machine.cores_per_node)

    def node_of(self, process):
        return process // self.machine.processes_per_node

    # The event loop of process 0 does one thing after the other; returns when it is through with this one.
    def loop(self, arrival, seconds):
        self.loop_free = max(self.loop_free, arrival) + seconds
        self.prediction.loop_busy += seconds
        return self.loop_free

    def hops(self, process):
        """From one process to process 0 or back."""
        return 0.0 if process == 0 else self.machine.latency + self.machine.poll / 2

    def take_free_process(self):
        while self.free:
            load, _, process = heapq.heappop(self.free)
            if load == self.load[process]:
                return process
        return None

    def change_load(self, process, change):
        self.load[process] += change
        if self.load[process] < self.seats:
            heapq.heappush(self.free, (self.load[process], process == 0, process))

    def hand_out(self):
        while self.waiting and (process := self.take_free_process()) is not None:
            self.change_load(process, +1)
            self.at(self.loop(self.now, self.costs.loop_per_item) + self.hops(process), self.begin, process, self.waiting.popleft())

    def begin(self, process, part):
        node = self.node_of(process)
        self.active[node] += self.threads_of_item
        cpu = part.compute + part.divisible / self.threads_of_item
        self.prediction.worker_busy += part.compute + part.divisible
        reads = part.storage_bytes * min(self.machine.processes, self.machine.processes_per_node) / self.machine.node_reads
        end = self.now + max(cpu * self.slowness(node), reads)
        if self.machine.storage < math.inf:
            self.storage_free = max(self.storage_free, self.now) + part.storage_bytes / self.machine.storage
            end = max(end, self.storage_free)
        self.at(end, self.encode, process, part, max(1, math.ceil(part.bytes / BATCH_BYTES)), 0)

    def encode(self, process, part, batches, done):
        if done == batches:
            self.active[self.node_of(process)] -= self.threads_of_item
            return
        seconds = part.encode / batches
        self.prediction.worker_busy += seconds
        self.at(self.now + seconds * self.slowness(self.node_of(process)), self.queue, process, part, batches, done)

    def queue(self, process, part, batches, done):
        size = part.bytes / batches
        if self.queued[process] > 0 and self.queued[process] + size > QUEUE_BYTES:
            self.active[self.node_of(process)] -= self.threads_of_item
            self.blocked[process].append((part, batches, done))
            return
        self.queued[process] += size
        self.prediction.peak_queue = max(self.prediction.peak_queue, self.queued[process])
        self.ready[process].append((part, batches, done))
        self.at(self.now + self.hops(process), self.offer, process, size)
        self.encode(process, part, batches, done + 1)

    def offer(self, process, size):
        self.offers.append((process, size))
        self.grant()

    def grant(self):
        while self.offers and (self.in_flight == 0 or self.in_flight + self.offers[0][1] <= WINDOW_BYTES):
            process, size = self.offers.popleft()
            self.in_flight += size
            self.prediction.peak_window = max(self.prediction.peak_window, self.in_flight)
            self.at(self.now + self.hops(process), self.send, process)

    def send(self, process):
        part, batches, done = self.ready[process].popleft()
        size = part.bytes / batches
        self.queued[process] -= size
        if self.blocked[process]:
            self.active[self.node_of(process)] += self.threads_of_item
            self.at(self.now, self.queue, process, *self.blocked[process].popleft())
        arrival = self.now
        if process != 0:
            self.wire_free = max(self.wire_free, self.now) + size / self.machine.bandwidth
            arrival = self.loop(self.wire_free + self.hops(process), size * self.costs.loop_per_byte)
        self.at(arrival, self.store, process, part, batches, done)

    def store(self, process, part, batches, done):
        seconds = part.insert / batches * SHARE_OF_COMMITS / (SHARE_OF_COMMITS - 1)  # a commit waits for the disk, at most that much
        self.prediction.writer_busy += seconds
        self.prediction.rows_inserted += part.rows / batches
        busy = self.active[0] + 1
        self.writer_free = max(self.writer_free, self.now) + seconds * max(1.0, busy / self.machine.cores_per_node)
        self.at(self.writer_free, self.stored, process, part.bytes / batches, done + 1 == batches)

    def stored(self, process, size, last):
        self.in_flight -= size
        if self.in_flight < 1e-6:
            self.in_flight = 0.0
        self.grant()
        if last:
            self.left -= 1
            self.change_load(process, -1)
            self.hand_out()


def predict(costs, machine, items, tensor_mode=False):
    found = Prediction()
    looks = sum(min(item.tensor_files, 2 * TENSOR_FILES_LOOKED_AT) + 6 for item in items)
    found.plan = len(items) * costs.plan_per_item + sum(item.tensor_files for item in items) * costs.plan_per_file + looks * machine.look / LOOKS_AT_ONCE
    for parts in parts_of(costs, items, tensor_mode, machine.processes):
        if parts:
            found.items += Schedule(costs, machine, parts, tensor_mode, found).run()
    rows = sum(item.rows for item in items)
    records = sum(item.link_records for item in items)
    if records:
        peers = machine.processes * machine.latency * 2  # sizes, then records
        record_bytes = 256
        per_pair = records * record_bytes / machine.processes**2
        rounds = max(1, math.ceil(per_pair / (ROUND_BYTES / machine.processes)))
        found.links = records * costs.link_per_record + rounds * (peers + machine.poll)
    found.finish = costs.index(rows)
    found.floor = rows * costs.floor_per_row + costs.index(rows)
    found.result_bytes = sum(item.rows * item.row_bytes for item in items)
    return found


# --- measuring -----------------------------------------------------------------------------------------------------------------------

SIZES = ("statistics", "statistics-4", "statistics-12")
WORKER, WRITER, MAIN = (("msvis-worker", slice(1)), ("msvis-writer", slice(1)), ("msvis-mpi", slice(1)))
TICK = os.sysconf("SC_CLK_TCK")
STATISTICS = ["--ranks", "8", "--layers", "68", "--hidden", "1024", "--seq", "512", "--vocab", "32000", "--tp", "2", "--pp", "2"]
TENSOR = ["--ranks", "2", "--task", "tensor", "--layers", "12", "--hidden", "256", "--vocab", "4096", "--size", "512M"]
SMALL_FILES = ["--ranks", "2", "--task", "tensor", "--layers", "120", "--hidden", "32", "--seq", "32", "--vocab", "32", "--size", "75M"]
NO_SPINNING = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def generate(work, name, options, change):
    for side, more in (("golden", []), ("target", change)):
        if not (work / name / side).exists():
            subprocess.run([sys.executable, HERE.parent / "tools/gen_dump.py", work / name / side, *options, *more], check=True, stdout=subprocess.DEVNULL)
    return work / name


def repeat_ranks(work, case, times):
    """The same ranks again under other numbers, by hard links."""
    copy = work / f"{case.name}-{times}"
    if not copy.exists():
        for side in ("target", "golden"):
            ranks = sorted((case / side).glob("rank*"), key=lambda path: int(path.name[4:]))
            for turn in range(times):
                for number, rank in enumerate(ranks):
                    shutil.copytree(rank, copy / side / f"rank{turn * len(ranks) + number}", copy_function=os.link)
    return copy


class ThreadTimes(threading.Thread):
    """Processor time of the program's threads, by MPI process and in the order in which they were started."""

    def __init__(self, launched, program):
        super().__init__(daemon=True)
        self.launched, self.program = launched, program
        self.numbers, self.names, self.seconds = {}, {}, {}
        self.discovery = 0.0

    def run(self):
        while self.launched.poll() is None:
            for entry in os.listdir("/proc"):
                if entry.isdigit():
                    self.look_at(pathlib.Path("/proc", entry))
            if WORKER[0] not in self.names.values():
                self.discovery = sum(self.seconds.values())
            time.sleep(0.005)

    def look_at(self, process):
        try:
            if process.name not in self.numbers:
                if os.readlink(process / "exe") != self.program:
                    return
                variables = dict(part.split(b"=", 1) for part in (process / "environ").read_bytes().split(b"\0") if b"=" in part)
                self.numbers[process.name] = int(variables.get(b"OMPI_COMM_WORLD_RANK", 0))
            for task in os.listdir(process / "task"):
                start, end = (process / "task" / task / "stat").read_text().rsplit(")", 1)
                fields = end.split()
                # The time of the start counts: thread numbers begin anew at some point.
                thread = self.numbers[process.name], int(fields[19]), int(task)
                self.names[thread] = start.split("(", 1)[1]  # given by the thread itself, after its start
                self.seconds[thread] = (int(fields[11]) + int(fields[12])) / TICK
        except OSError:
            pass  # it has ended, or is another user's

    def of(self, number):
        return [(self.names[thread], seconds) for thread, seconds in sorted(self.seconds.items()) if thread[0] == number]


@dataclasses.dataclass
class Run:
    summary: dict
    threads: list  # names and processor time of the threads of process 0, as they were started
    discovery: float  # processor time until there was a worker
    result: pathlib.Path

    def processor_time(self, name, turn=slice(None)):
        """Of the threads of this name, or of some of them in the order of their starts. The items' worker and writer come first, then those of the links."""
        return sum([seconds for thread, seconds in self.threads if thread == name][turn])

    def seconds(self, stage):
        return self.summary["seconds"][stage]


def run_program(build, case, work, processes, threads=1):
    out = pathlib.Path(tempfile.mkdtemp(prefix="out-", dir=work))
    program = str((build / "msvis-mpi").resolve())
    sides = ["-tp", case / "target"] + (["-gp", case / "golden"] if (case / "golden").exists() else [])
    command = [program, *sides, "-o", out, "--summary-json", work / "summary.json", "--threads", str(threads)]
    if processes > 1:
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(processes), *command]
    launched = subprocess.Popen(command, env=dict(os.environ, **NO_SPINNING), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    times = ThreadTimes(launched, program)
    times.start()
    if launched.wait() != 0:
        sys.exit(f"{command} ended with {launched.returncode}")
    times.join()
    return Run(json.loads((work / "summary.json").read_text()), times.of(0), times.discovery, next(out.glob("*.vis.db")))


def best_of(rounds, build, case, work, processes, threads=1, cost=lambda run: sum(seconds for _, seconds in run.threads)):
    """The run that took least; the results of earlier calls are removed."""
    for old in work.glob("out-*"):
        shutil.rmtree(old)
    return min((run_program(build, case, work, processes, threads) for _ in range(rounds)), key=cost)


def size_of(files):
    return sum(path.stat().st_size for path in files)


def items_of(case, result):
    """The work of a real comparison, as the model sees it."""
    database = sqlite3.connect(f"file:{result}?mode=ro", uri=True)
    columns = [row[1] for row in database.execute("PRAGMA table_info(tb_nodes)")]
    length = " + ".join(f"ifnull(length(CAST({column} AS BLOB)), 0)" for column in columns)
    rows = {}
    for rank, side, number, size, calls in database.execute(
            f"SELECT rank, data_source, count(*), sum({length}), sum(is_distributed) FROM tb_nodes GROUP BY 1, 2"):
        rows[rank, side] = number, size, calls
    tensors = dict(database.execute("SELECT rank, count(*) FROM msvis_tensor GROUP BY 1"))
    database.close()
    items = []
    for rank in sorted({rank for rank, _ in rows}):
        sides = [case / side / f"rank{rank}" for side in ("target", "golden") if (case / side).exists()]
        files = [path for side in sides for path in side.glob("dump_tensor_data/*")]
        target, golden = rows[rank, "NPU"], rows.get((rank, "Bench"), (0, 0, 0))
        items.append(Item(json_bytes=size_of(path for side in sides for path in side.glob("*.json")), target_rows=target[0], golden_rows=golden[0],
                          row_bytes=(target[1] + golden[1]) / (target[0] + golden[0]), tensor_bytes=size_of(files), tensor_files=len(files),
                          tensors=tensors.get(rank, 0), link_records=target[2] + golden[2]))
    return items


def total(items, what):
    return sum(getattr(item, what) for item in items)


def cases(work):
    change = ["--perturb", "noise=2e-3@6"]
    statistics = generate(work, "statistics", STATISTICS, change)
    return {"statistics": statistics, "statistics-4": repeat_ranks(work, statistics, 4), "statistics-12": repeat_ranks(work, statistics, 12),
            "tensor": generate(work, "tensor", TENSOR, change), "small-files": generate(work, "small-files", SMALL_FILES, change)}


def floor_of(build, case, result):
    jsons = sorted(str(path) for path in case.rglob("*.json"))[:2]  # its parse is not what we want from it
    done = subprocess.run([build / "tests/bench/statistics_floor", result, *jsons], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def measure(build, work, rounds):
    found = cases(work)
    runs, items, floor = {}, {}, None
    for name, case in found.items():
        runs[name] = best_of(rounds, build, case, work, processes=1)
        items[name] = items_of(case, runs[name].result)
        if name == "statistics-4":
            floor = min((floor_of(build, case, runs[name].result) for _ in range(rounds)), key=lambda one: one["insert_cpu"])
        print(f"{name}: {runs[name].summary['seconds']}, threads {runs[name].threads}", file=sys.stderr)
    tiny = work / "tiny"
    if not tiny.exists():
        rank = HERE.parent.parent / "testdata/golden/distributed/p2p_build/target/rank0"
        shutil.copytree(rank, tiny / "target/rank0")
        for number in range(1, 4000):
            shutil.copytree(tiny / "target/rank0", tiny / f"target/rank{number}", copy_function=os.link)
    alone = best_of(rounds, build, tiny, work, processes=1)
    pair = best_of(rounds, build, tiny, work, processes=2)
    pair_rows = best_of(rounds, build, found["statistics-4"], work, processes=2)

    # Processor time all along: other work on the machine disturbs it least. A worker's is divided among the stages as their durations are.
    def stage_seconds(name, stage):
        stages = runs[name].seconds("work")
        return runs[name].processor_time(*WORKER) * stages[stage] / sum(stages.values())

    work_items = items["statistics-4"]
    rows = total(work_items, "rows")
    insert = runs["statistics-4"].processor_time(*WRITER) / rows
    compare_per_row = stage_seconds("statistics-4", "compare") / rows

    # Bytes and files of two sets of tensors: two equations.
    large, small = items["tensor"], items["small-files"]
    (bytes_1, files_1), (bytes_2, files_2) = ((total(each, "tensor_bytes"), total(each, "tensor_files")) for each in (large, small))
    seconds_1, seconds_2 = (stage_seconds(name, "compare") - total(items[name], "rows") * compare_per_row for name in ("tensor", "small-files"))
    determinant = bytes_1 * files_2 - files_1 * bytes_2
    per_byte = (seconds_1 * files_2 - seconds_2 * files_1) / determinant
    per_file = (seconds_2 * bytes_1 - seconds_1 * bytes_2) / determinant

    # The last thread builds the indexes: seconds a row as a line over the logarithm of the number of rows.
    points = [(math.log2(total(items[name], "rows")), runs[name].processor_time("msvis-finish") / total(items[name], "rows")) for name in SIZES]
    mean_x, mean_y = (sum(point[axis] for point in points) / len(points) for axis in (0, 1))
    growth = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)

    many = "statistics-12"
    per_record = sum(runs[many].processor_time(name, slice(1, None)) for name in ("msvis-worker", "msvis-writer")) / total(items[many], "link_records")

    plan_per_file = runs["small-files"].discovery / total(small, "tensor_files")
    tiny_items = len(alone.summary["items"])
    stages_alone = sum(alone.seconds(stage) for stage in ("items", "links", "finish"))
    loop_per_item = pair.processor_time(*MAIN) / tiny_items
    remote = sum(item.rows * item.row_bytes for item in work_items) / 2
    return Costs(
        plan_per_file=plan_per_file,
        plan_per_item=(alone.seconds("total") - stages_alone) / tiny_items,
        read_per_byte=stage_seconds("statistics-4", "read") / total(work_items, "json_bytes"),
        compare_per_row=compare_per_row,
        encode_per_row=stage_seconds("statistics-4", "encode") / rows,
        tensor_per_byte=per_byte,
        tensor_per_file=per_file,
        insert_per_row=insert,
        insert_per_tensor=max(0.0, runs["small-files"].processor_time(*WRITER) - insert * total(small, "rows")) / total(small, "tensors"),
        floor_per_row=floor["insert_cpu"] / rows,
        index_per_row=mean_y - growth * mean_x,
        index_growth=growth,
        loop_per_item=loop_per_item,
        loop_per_byte=max(0.0, pair_rows.processor_time(*MAIN) - loop_per_item * len(work_items)) / remote,
        link_per_record=per_record,
    )


# --- commands ------------------------------------------------------------------------------------------------------------------------


def load_costs(path):
    return Costs(**json.loads(pathlib.Path(path).read_text())["costs"])


def validate(costs, build, work, rounds):
    cores = len(os.sched_getaffinity(0))
    print("| set | processes | threads | stage | predicted | measured | predicted : measured |\n| --- | --- | --- | --- | --- | --- | --- |")
    for name, case in cases(work).items():
        tensor_mode = name in ("tensor", "small-files")
        items = None
        for processes, threads in ((1, 1), (1, 2), (2, 1)):
            run = best_of(rounds, build, case, work, processes, threads, cost=lambda one: one.seconds("total"))
            items = items or items_of(case, run.result)
            machine = Machine(processes, threads, processes, cores, bandwidth=math.inf, poll=0 if processes == 1 else Machine.poll)
            prediction = predict(costs, machine, items, tensor_mode)
            for stage in ("items", "total"):
                guess, real = getattr(prediction, stage), run.seconds(stage)
                print(f"| {name} | {processes} | {threads} | {stage} | {guess:.2f} | {real:.2f} | {guess / real:.2f} |")


# One side of a rank of the set that `measure` uses for statistics; the same with tensors, of which it has as many for each node as the set of tensors.
NODES, ROW_BYTES, JSON_BYTES, LINK_RECORDS, FILES, TENSORS = 2684, 2076.0, 2_903_000, 79, 3600, 8400


def made_up_items(mode, ranks, gib_a_side):
    item = Item(2 * JSON_BYTES, NODES, NODES, ROW_BYTES, link_records=2 * LINK_RECORDS)
    if mode == "tensor":
        item = dataclasses.replace(item, tensor_bytes=int(2 * gib_a_side * (1 << 30)), tensor_files=2 * FILES, tensors=TENSORS)
    return [item] * ranks


# A node of the tables: processes, and bytes a second that it reads (200 Gbit/s).
PROCESSES_PER_NODE, NODE_READS = 8, 25e9


def cluster(processes, threads, storage=math.inf, look=1e-4):
    """A core for each worker thread, and two for process 0's own."""
    per_node = min(processes, PROCESSES_PER_NODE)
    return Machine(processes, threads, per_node, per_node * threads + 2, storage=storage, node_reads=NODE_READS, look=look)


def describe(seconds):
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def print_row(cells):
    print("| " + " | ".join(cells) + " |")


def tables(costs):
    print("Statistics, one thread a process: seconds on so many processes, in brackets over SQLite alone (rows and indexes).\n")
    counts = (1, 8, 64, 1024, 4096)
    print_row(["ranks", "rows", "SQLite alone", *(f"{count:,}" for count in counts)])
    print_row(["---"] * (3 + len(counts)))
    for ranks in (10, 100, 1000, 10000):
        items = made_up_items("statistics", ranks, 0)
        found = [predict(costs, cluster(count, 1), items) for count in counts]
        print_row([f"{ranks:,}", f"{total(items, 'rows') / 1e6:.2f} M", describe(found[0].floor), *(f"{describe(each.total)} ({each.total / each.floor:.2f})" for each in found)])
    print("\nTensors, four threads a process: seconds on so many processes, in brackets the speed-up over one node divided by the number of nodes.\n")
    counts = (8, 64, 256, 1024, 4096)
    print_row(["ranks", "GiB a rank and side", *(f"{count:,}" for count in counts), "indexes", "inserts keep up with"])
    print_row(["---"] * (4 + len(counts)))
    for ranks, size in ((10, 64), (100, 64), (1000, 4), (1000, 16), (1000, 64), (1000, 225), (10000, 64), (10000, 225)):
        items = made_up_items("tensor", ranks, size)
        found = [predict(costs, cluster(count, 4), items, True) for count in counts]
        # Time that a process spends on an item, over that which process 0 needs to store it.
        process_seconds = items[0].tensor_bytes * PROCESSES_PER_NODE / NODE_READS
        keeps_up = process_seconds / (found[0].writer_busy / ranks)
        print_row([f"{ranks:,}", f"{size}", *(f"{describe(each.total)} ({found[0].total / each.total / (count / counts[0]):.2f})" for each, count in zip(found, counts)),
                   describe(found[0].finish), f"{keeps_up:,.0f} processes"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("measure", "validate", "table", "run"))
    parser.add_argument("costs", nargs="?", help="file of measured costs")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/msvis-scaling"), help="for generated dumps and results")
    parser.add_argument("--rounds", type=int, default=3, help="the fastest run counts")
    parser.add_argument("--mode", choices=("statistics", "tensor"), default="statistics")
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--gib", type=float, default=16, help="tensors of a rank and side")
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--storage", type=float, default=math.inf, help="bytes a second that all processes together read")
    a = parser.parse_args()
    if a.command != "measure" and not a.costs:
        parser.error("name the file of costs that `measure` printed")
    if a.command == "measure":
        a.work.mkdir(parents=True, exist_ok=True)
        costs = measure(a.build, a.work, a.rounds)
        print(json.dumps({"cores": os.cpu_count(), "rounds": a.rounds, "costs": dataclasses.asdict(costs)}, indent=1))
    elif a.command == "validate":
        validate(load_costs(a.costs), a.build, a.work, a.rounds)
    elif a.command == "table":
        tables(load_costs(a.costs))
    else:
        prediction = predict(load_costs(a.costs), cluster(a.processes, a.threads, a.storage), made_up_items(a.mode, a.ranks, a.gib), a.mode == "tensor")
        print(json.dumps({**dataclasses.asdict(prediction), "total": prediction.total, "over_floor": prediction.total / prediction.floor}, indent=1))


if __name__ == "__main__":
    main()
