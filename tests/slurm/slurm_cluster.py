"""A real Slurm of two nodes on this machine, with its own keys, ports, state and logs in one directory; nothing of an installed Slurm is used or touched."""

import contextlib
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "squeue", "sinfo", "setpriv")
PATIENCE = 120  # seconds for anything that takes a moment

CONFIGURATION = """\
ClusterName=msvis
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
# Everything listens on the loopback interface only.
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
# PMIx keeps files by job here; two nodes of one machine must not share them.
TmpFS={folder}/tmp/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
# The nodes promise more cores than the machine has.
SlurmdParameters=config_overrides
JobRequeue=1
KillWait=5
MpiDefault=none
MailProg={true}
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing_programs():
    return [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]


def search_path():
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def wait_until(condition, what, patience=PATIENCE):
    """The first true value of the condition."""
    deadline = time.monotonic() + patience
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience} s for {what}")
        time.sleep(0.05)


def free_ports(number):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class SlurmCluster:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.daemons = []
        self.jobs = []
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SBATCH_", "SRUN_"))}
        self.environment.update(PATH=search_path(), SLURM_CONF=str(self.folder / "slurm.conf"))

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def _start(self):
        self.folder.chmod(0o755)  # munged wants its socket reachable for all
        for name in ("state", "spool/n1", "spool/n2", "log", "tmp/n1", "tmp/n2"):
            (self.folder / name).mkdir(parents=True)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(folder=self.folder, host=socket.gethostname().split(".")[0], user=getpass.getuser(), ports=free_ports(3), true=shutil.which("true")))
        self._daemon("munged", "--foreground", f"--key-file={key}", f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid",
                     f"--log-file={self.folder}/log/munged.log", f"--seed-file={self.folder}/munged.seed")
        wait_until((self.folder / "munge.socket").exists, "munged")
        self._daemon("slurmctld", "-D")
        wait_until(lambda: self.run("scontrol", "ping", check=False).returncode == 0, "slurmctld")
        for node in ("n1", "n2"):
            self._daemon("slurmd", "-D", "-N", node)
        wait_until(lambda: self.run("sinfo", "-h", "-o", "%t %D").stdout.split() == ["idle", "2"], "two idle nodes")

    def _daemon(self, *command):
        with open(self.folder / "log" / f"daemon{len(self.daemons)}.out", "wb") as output:
            # They end when the test does, however it ends.
            command = ("setpriv", "--pdeathsig", "TERM", *command)
            self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=self.environment))

    def stop(self):
        """Jobs first: the daemons of a node outlive neither their jobs' steps nor leave any behind."""
        if len(self.daemons) > 1:
            with contextlib.suppress(Exception):
                self.cancel_all()
        for daemon in reversed(self.daemons):
            if daemon.poll() is None:
                daemon.send_signal(signal.SIGTERM)
                try:
                    daemon.wait(20)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
        self.daemons.clear()

    def cancel_all(self):
        if self.jobs:
            self.run("scancel", *self.jobs, check=False)
            wait_until(lambda: not self.run("squeue", "-h").stdout.strip(), "the end of all jobs")

    def run(self, *command, check=True, **more):
        done = subprocess.run([str(part) for part in command], env=self.environment, text=True, capture_output=True, timeout=PATIENCE, check=False, **more)
        if check and done.returncode:
            raise RuntimeError(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def submit(self, script, *options, settings=None, arguments=()):
        """The number of the job. `settings` are environment variables of the script."""
        environment = dict(self.environment, **{key: str(value) for key, value in (settings or {}).items()})
        command = ["sbatch", "--parsable", *map(str, options), str(script), *map(str, arguments)]
        done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=PATIENCE, check=False)
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr}")
        self.jobs.append(done.stdout.strip())
        return self.jobs[-1]

    def job(self, number):
        """What Slurm says of a job: JobState, ExitCode, Restarts and so on."""
        return dict(re.findall(r"(\S+?)=(\S*)", self.run("scontrol", "show", "job", "-o", number).stdout))

    def wait_for_state(self, number, *states):
        return wait_until(lambda: job if (job := self.job(number))["JobState"] in states else None, f"job {number} to become {states}")

    def wait_for_end(self, number):
        return self.wait_for_state(number, "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")

    def logs(self):
        return "".join(f"--- {path.name}\n{path.read_text(errors='replace')[-4000:]}\n" for path in sorted((self.folder / "log").iterdir()))
