//! `unrack run`: runs one program with part of its memory remote. [`unrack_compare`] does the work.

mod borrowed;
mod outputs;
mod summary;

use crate::failure::{CommandFailure, say};
use crate::keys::Protection;
use outputs::WriteTarget;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use summary::lines;
use unrack_compare::{AskedDelay, BorrowQuestion, RunQuestion};
use unrack_paging::{FaultMode, MemoryNode, MemoryNodes, Placeholder};
use unrack_units::{Bytes, Rate, Share, Time};

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack run -- python3 job.py                         a quarter of its memory local, 3us a fetch
  unrack run --local 64MiB --latency 10us -- sort big  a fixed size
  unrack run --capture trace.parquet -- ./program      keep every page transfer
  unrack run --remote 10.0.0.2:7000 -- ./program       from a real memory node over a real network, encrypted by
                                                       keys (`unrack keys`)
  unrack run --remote 10.0.0.2:7000,10.0.0.3:7000 --mirror -- ./program
                                                       from two memory nodes of which one may die
  unrack run --completions completions.parquet -- ./program
                                                       waits as simulated for a fabric
  unrack run --read-ahead 16 -- ./program              fetches ahead of what strides through memory
  unrack run --pid 4711 --local 25% --for 30s          a process that runs already, and gets all back in the end
  unrack run --local 25% --footprint 2GiB -- redis-server
                                                       a service: no native run, which would never end

A share such as 25% is of the program's footprint. The first run of a command measures it by a native run whose \
output is discarded; later runs remember it. unrack becomes CMD: its process number, its signals, its output and its exit \
status are CMD's. The summary is written before CMD's end is known to whoever waits for it. Processes that CMD leaves behind \
are ended after --grace. (With --fast, and where tracing is not permitted, CMD is a child of unrack, which passes SIGINT, SIGTERM, SIGHUP, \
SIGQUIT, SIGUSR1 and SIGUSR2 on; whatever still runs 5 s after SIGINT or SIGTERM, or at a second one, is killed.)

A fetch takes the latency and the transmission of a 4KiB page. The pager's own cost is measured first and is part of \
that delay. Where it exceeds the delay, the run takes longer than on such a network; the summary on stderr gives both \
times. `unrack compare` computes them without the pager.

With --pid the footprint is what the process has now (with --tree, it and all processes that it has started). Ctrl-C or SIGTERM (of unrack: no signal is passed on) or --for ends \
it: every page is back then, and the process goes on, as it does if unrack is killed. If it ends before, the status is its own. Processes that it forks meanwhile share \
its local memory; a child gets copies of all that is away, so there must be memory for that. Needs root (CAP_SYS_PTRACE), and refuses what it cannot leave unharmed: programs that others trace, that \
filter system calls (seccomp), or that use userfaultfd.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Memory that stays local: a share of the program's footprint, or a size
    #[arg(long, value_name = "SHARE", default_value = "25%")]
    local: Share,
    /// Latency of a fetch, without the transmission of its page [default: 3us; with --remote, the real one]
    #[arg(long, value_name = "TIME")]
    latency: Option<Time>,
    /// Rate of the link to remote memory in each direction [default: 100Gbps; with --completions, that of the file;
    /// with --remote, the real one]
    #[arg(long, value_name = "RATE")]
    bandwidth: Option<Rate>,
    /// Draw each fetch's time from this file, written by a simulation
    #[arg(long, value_name = "FILE", conflicts_with = "latency")]
    completions: Option<PathBuf>,
    /// Seed of these draws
    #[arg(long, default_value_t = 1, requires = "completions")]
    seed: u64,
    /// Keep remote pages at these memory nodes (see `unrack memory serve`), with commas between them: ADDRESS:PORT, or the path of
    /// a socket. Each page is at one of the nodes, so that their capacities add up
    #[arg(long, value_name = "NODE", value_delimiter = ',', conflicts_with = "completions")]
    remote: Vec<MemoryNode>,
    /// Keep each page at every node of --remote, so that the run goes on if nodes die, as long as one is left. A node that is
    /// silent for half of --page-timeout while another one answers counts as dead
    #[arg(long, requires = "remote")]
    mirror: bool,
    #[command(flatten)]
    protection: Protection,
    /// Report on stderr, every second, threads that wait longer than this for a page of a memory node, and end the
    /// program after six times as long (1s to 1h)
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = page_timeout, requires = "remote")]
    page_timeout: Duration,
    /// Write every page transfer to this file (Parquet)
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Write all counts to this file (JSON)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Handle faults in the faulting thread: faster, but Unrack ends a program that it cannot keep correct in this mode
    #[arg(long, conflicts_with = "remote")]
    fast: bool,
    /// Fetch up to N pages ahead (0 to 64) along the strides that a thread's faults show. Threads wait less, but `--capture` could
    /// not attribute the waits to threads
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=64),
          conflicts_with_all = ["fast", "capture", "pid"])]
    read_ahead: u32,
    /// Time that background processes of CMD may continue after CMD has ended [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    grace: Option<Duration>,
    /// Footprint to which a share in --local refers. Unrack then does not measure it by a native run: for services, which do not
    /// end, and for programs that must not run twice
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["pid", "no_cache"])]
    footprint: Option<Bytes>,
    /// Measure the footprint again
    #[arg(long)]
    no_cache: bool,
    /// Take memory from this running process instead of starting a program, and give it back in the end
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "fast", "capture", "remote", "grace", "no_cache"])]
    pub(crate) pid: Option<u32>,
    /// With --pid: take memory also from the processes that it started earlier
    #[arg(long, requires = "pid")]
    tree: bool,
    /// Time after which memory is given back [default: when unrack is asked to end, or the process ends]
    #[arg(long = "for", value_name = "TIME", value_parser = duration, requires = "pid")]
    time: Option<Duration>,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "pid", value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Runs `unrack run`.
pub(crate) fn main(args: Args, placeholder: Option<&Placeholder>) -> Result<ExitCode, CommandFailure> {
    let json = args.json.as_deref().map(WriteTarget::check).transpose()?;
    if let Some(pid) = args.pid {
        return borrowed::main(&args.borrowed(pid), json.as_ref());
    }
    let answer = args.question()?.ask(placeholder)?;
    json.iter().try_for_each(|target| target.write_json(&answer))?;
    lines(&answer).iter().for_each(|line| say(line));
    Ok(ExitCode::from(answer.exit_status.unwrap_or_default()))
}

fn duration(text: &str) -> Result<Duration, String> {
    let time: Time = text.parse().map_err(|why| format!("{why}"))?;
    Ok(Duration::from_nanos(time.as_ns()))
}

/// Parses the page timeout. It is at least 1 s because connections are probed in whole seconds, and at most 1 h because longer waits are
/// useless.
fn page_timeout(text: &str) -> Result<Duration, String> {
    let time: Time = text.parse().map_err(|why| format!("{why}"))?;
    match Duration::from_nanos(time.as_ns()) {
        time if (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&time) => Ok(time),
        _ => Err("give a time from 1s to 1h".into()),
    }
}

impl Args {
    fn question(self) -> Result<RunQuestion, CommandFailure> {
        let (delay, policy) = (self.delay(), self.protection.policy());
        let capture = self.capture.as_deref().map(WriteTarget::check_file).transpose()?;
        let remote = match self.remote.is_empty() {
            true => None,
            false => {
                let mut nodes = MemoryNodes::new(self.remote, self.mirror)?;
                nodes.protect(&policy)?;
                Some(nodes)
            }
        };
        Ok(RunQuestion {
            command: self.command,
            local: self.local,
            footprint: self.footprint,
            remembers: !self.no_cache,
            delay,
            seed: self.seed,
            mode: if self.fast { FaultMode::Fast } else { FaultMode::Blocking },
            remote,
            page_timeout: self.page_timeout,
            capture,
            read_ahead: self.read_ahead,
            grace: self.grace,
        })
    }

    fn borrowed(&self, pid: u32) -> BorrowQuestion {
        BorrowQuestion {
            pid,
            with_children: self.tree,
            local: self.local,
            delay: self.delay(),
            seed: self.seed,
            time: self.time,
        }
    }

    fn delay(&self) -> AskedDelay {
        match self.completions.clone() {
            Some(completions) => AskedDelay::Drawn { completions, bandwidth: self.bandwidth },
            None => AskedDelay::Constant { latency: self.latency, bandwidth: self.bandwidth },
        }
    }
}
