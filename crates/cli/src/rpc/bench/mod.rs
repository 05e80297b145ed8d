//! `unrack rpc bench`: the cost of calls on this machine.
//!
//! Client and server are two processes on two cores, each pinned to its own; the pool is one of the bench's.
//! `bench/rpc-peers` compares it with the floor (hand-written queues) and with peers.
//!
//! | module | idea |
//! |---|---|
//! | [`server`] | the other process |
//! | [`client`] | timed calls |
//! | [`results`] | figures, as tables and JSON |

mod client;
mod results;
pub mod server;

use self::client::Load;
use self::results::{Cell, Results, Use};
use self::server::Peer;
use crate::failure::Failure;
use crate::stdout::print;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::process::ExitCode;
use std::time::Duration;
use unrack_pool::cache_control::Mode;
use unrack_rpc::Waiting;
use unrack_units::{Bytes, Time};

pub const EXAMPLES: &str = "\
Examples:
  unrack rpc bench                                  all of it: about half a minute
  unrack rpc bench --sizes 64B --windows 0,16       round trip and throughput of small calls
  unrack rpc bench --memory incoherent              with lines flushed, as memory needs that hosts share
  unrack rpc bench --connections 1,96 --rates none  many connections, no figures of processor time
  unrack rpc bench --json > calls.json

Client and server are two processes, pinned to the first two cores that this one may use; what else runs there shows \
in the percentiles. A call carries its size there and back, and both sides read and write all of it, but for the rows \
`not touched`. Times are those of whole calls; with a window, from the request to the answer's turn.";

#[derive(clap::Args)]
pub struct Args {
    /// Bytes of requests and of answers
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "64B,512B,4KiB,32KiB,256KiB,2MiB"
    )]
    sizes: Vec<Bytes>,
    /// Calls under way beside the one that is waited for
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "0,1,4,16",
          value_parser = clap::value_parser!(u16).range(..=255))]
    windows: Vec<u16>,
    /// Numbers of connections of one client, at the smallest size: with queues each, and sharing queues
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,8,96",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: Vec<u16>,
    /// Calls per second at which the server's use of the processor is measured, or `none`
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "0,1000,10000", value_parser = rate)]
    rates: Vec<Rate>,
    /// Access to memory: coherent, incoherent (lines are flushed), or model (for tests)
    #[arg(long, value_name = "MODE", default_value = "coherent", value_parser = mode)]
    memory: Mode,
    /// Way in which both sides wait: spin, adaptive or sleep. Rates are always measured with adaptive
    #[arg(long, value_name = "HOW", default_value = "spin")]
    waiting: Waiting,
    /// Time for each figure; ten times as long for those of the processor
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    time: Time,
    /// Rounds of each figure: percentiles are of all rounds, calls per second the middle one's
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Memory of the pool
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    capacity: Bytes,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Calls per second, or no measurement.
#[derive(Clone, Copy, PartialEq)]
enum Rate {
    None,
    PerSecond(u32),
}

/// Highest rate: above it, a client that makes one call after the other does not keep up.
const MOST_RATE: u32 = 1_000_000;

fn rate(text: &str) -> Result<Rate, String> {
    match text.parse() {
        Ok(rate) if rate <= MOST_RATE => Ok(Rate::PerSecond(rate)),
        Err(_) if text == "none" => Ok(Rate::None),
        _ => Err(format!("give calls a second, up to {MOST_RATE}, or `none`")),
    }
}

fn mode(text: &str) -> Result<Mode, String> {
    text.parse().map_err(|error: unrack_pool::cache_control::UnknownMode| error.to_string())
}

/// Runs `unrack rpc bench`.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let longest = unrack_rpc::queue::entry::MOST_BYTES as u64;
    if let Some(size) = args.sizes.iter().find(|size| size.get() < 8 || size.get() > longest) {
        return Err(Failure::Usage(format!("--sizes {size}: give 8B to {}", Bytes::new(longest))));
    }
    let cores = Cores::find()?;
    cores.take(0)?;
    let loads = args.loads();
    let rates: Vec<u32> = args
        .rates
        .iter()
        .filter_map(|rate| match *rate {
            Rate::PerSecond(rate) => Some(rate),
            Rate::None => None,
        })
        .collect();
    let bar = progress(loads.len() * usize::from(args.rounds) + rates.len());
    let time = Duration::from_secs_f64(args.time.as_secs_f64());
    let mut cells: Vec<Cell> = loads.iter().map(|&load| Cell::of(load)).collect();
    // Rounds go through all loads, so that a disturbance of the machine affects all of them.
    let peer = Peer::start(args.memory, args.waiting, args.capacity, cores.server())?;
    for _ in 0..args.rounds {
        for cell in &mut cells {
            bar.set_message(cell.to_string());
            cell.add(client::measure(&peer, cell.load, time)?);
            bar.inc(1);
        }
    }
    drop(peer);
    let uses = args.uses(&rates, time, &cores, &bar)?;
    bar.finish_and_clear();
    let results = Results::of(args.memory, args.waiting, cells, uses);
    print(&if args.json { results.json()? } else { results.to_string() })?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Returns all loads: sizes and windows on one connection, sizes that are not touched, many connections.
    fn loads(&self) -> Vec<Load> {
        let smallest = self.sizes.iter().min().copied().unwrap_or_default();
        let one = Load {
            bytes: smallest.get() as usize,
            window: 0,
            connections: 1,
            shared: true,
            touched: true,
            waiting: self.waiting,
        };
        let mut loads = Vec::new();
        for &window in &self.windows {
            loads.extend(self.sizes.iter().map(|size| Load { bytes: size.get() as usize, window, ..one }));
        }
        let untouched = |size: &Bytes| Load { bytes: size.get() as usize, touched: false, ..one };
        loads.extend(self.sizes.iter().map(untouched));
        for &window in &self.windows {
            for shared in [false, true] {
                let many = |&connections: &u16| Load { connections, window, shared, ..one };
                // One connection is in the first rows.
                loads.extend(self.connections.iter().filter(|&&count| count > 1).map(many));
            }
        }
        loads
    }

    /// Returns the server's use of the processor at each rate.
    fn uses(
        &self,
        rates: &[u32],
        time: Duration,
        cores: &Cores,
        bar: &ProgressBar,
    ) -> Result<Vec<Use>, Failure> {
        if rates.is_empty() {
            return Ok(Vec::new());
        }
        let bytes = self.sizes.iter().min().map_or(64, |size| size.get() as usize);
        let peer = Peer::start(self.memory, Waiting::Adaptive, self.capacity, cores.server())?;
        let mut uses = Vec::new();
        for &rate in rates {
            bar.set_message(format!("{rate} calls/s"));
            uses.push(client::use_at(&peer, rate, bytes, time * 10)?);
            bar.inc(1);
        }
        Ok(uses)
    }
}

fn progress(steps: usize) -> ProgressBar {
    const LOOK: &str = "{bar:24} {percent:>3} %  {msg} [{elapsed}, about {eta} left]";
    let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr());
    bar.with_style(ProgressStyle::with_template(LOOK).expect("the template is ours"))
}

/// The two cores in use, of the client and of the server.
struct Cores([usize; 2]);

impl Cores {
    fn find() -> Result<Cores, Failure> {
        let allowed = rustix::thread::sched_getaffinity(None).map_err(failed)?;
        let mut cores = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        match (cores.next(), cores.next()) {
            (Some(client), Some(server)) => Ok(Cores([client, server])),
            _ => Err(Failure::Lacking("two cores are needed: one for the client, one for the server".into())),
        }
    }

    fn server(&self) -> usize {
        self.0[1]
    }

    /// Pins this process to one of the two.
    fn take(&self, which: usize) -> Result<(), Failure> {
        pin(self.0[which])
    }
}

fn pin(core: usize) -> Result<(), Failure> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).map_err(failed)
}

fn failed(error: rustix::io::Errno) -> Failure {
    Failure::Failed(format!("cannot keep to a core: {error}"))
}
