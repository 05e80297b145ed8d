//! `unrack rpc bench`: measures the cost of calls on this machine.

use super::between;
use crate::failure::CommandFailure;
use crate::stdout::print;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;
use unrack_pool::cache_control::MemoryKind;
use unrack_rpc::WaitPolicy;
use unrack_rpc_bench::plan::SIZES;
use unrack_rpc_bench::{BenchPlan, Error, server};
use unrack_units::{Bytes, Time};

pub(super) const EXAMPLES: &str = "\
Examples:
  unrack rpc bench                                  all of it: about half a minute
  unrack rpc bench --sizes 64B --windows 0,16       round trip and throughput of small calls
  unrack rpc bench --memory incoherent              with lines flushed, as memory needs that hosts share
  unrack rpc bench --connections 1,96 --rates none  many connections, no figures of processor time
  unrack rpc bench --json > calls.json
  unrack rpc bench --hosts a,b                      between two virtual machines (`unrack rack up`)
  unrack rpc bench --serve /run/pool.sock & ssh other unrack rpc bench --pool /run/pool.sock
                                                    between two hosts that share a device

Client and server are two processes, pinned to the first two cores that this one may use; other work there shows in \
the percentiles. Request and answer both have the size given, and both sides read and write all of it, except in the \
rows `not touched`. Times are of whole calls; with a window, from the request until the answer is taken in its turn.";

#[derive(clap::Args)]
pub(super) struct Args {
    /// Bytes of each request and of each answer
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "64B,512B,4KiB,32KiB,256KiB,2MiB"
    )]
    sizes: Vec<Bytes>,
    /// Calls in flight besides the one that the client waits for
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "0,1,4,16",
          value_parser = clap::value_parser!(u16).range(..=255))]
    windows: Vec<u16>,
    /// Numbers of connections of one client, at the smallest size: with queues each, and sharing queues
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,8,96",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: Vec<u16>,
    /// Calls per second at which the server's use of the processor is measured, or `none`
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "0,1000,10000", value_parser = rate)]
    rates: Vec<CallRate>,
    /// Access to memory: coherent, incoherent (lines are flushed), or model (for tests)
    #[arg(long, value_name = "MODE", default_value = "coherent", value_parser = mode)]
    memory: MemoryKind,
    /// How client and server wait: spin, adaptive or sleep. Rates are always measured with adaptive
    #[arg(long, value_name = "HOW", default_value = "spin")]
    waiting: WaitPolicy,
    /// Time for each figure; measurements of processor time take ten times as long
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    time: Time,
    /// Rounds of each figure: percentiles are over all rounds, calls per second are those of the median round
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Memory of the pool
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    capacity: Bytes,
    /// Serve the benchmark over the pool at this socket, until its manager ends: for a client on another host
    #[arg(long, value_name = "PATH", conflicts_with_all = ["pool", "hosts"])]
    serve: Option<PathBuf>,
    /// Call the benchmark that is served over the pool at this socket, on this host or another
    #[arg(long, value_name = "PATH", conflicts_with = "hosts")]
    pool: Option<PathBuf>,
    /// Measure between two virtual machines of the rack that is up: server, client. Their device is formatted
    #[arg(long, value_name = "A,B")]
    hosts: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Calls per second, or no measurement.
#[derive(Clone, Copy, PartialEq)]
enum CallRate {
    None,
    PerSecond(u32),
}

/// Highest rate, because a client that makes one call after another cannot keep up with higher ones.
const MOST_RATE: u32 = 1_000_000;

fn rate(text: &str) -> Result<CallRate, String> {
    match text.parse() {
        Ok(rate) if rate <= MOST_RATE => Ok(CallRate::PerSecond(rate)),
        Err(_) if text == "none" => Ok(CallRate::None),
        _ => Err(format!("give calls a second, up to {MOST_RATE}, or `none`")),
    }
}

fn mode(text: &str) -> Result<MemoryKind, String> {
    text.parse().map_err(|error: unrack_pool::cache_control::UnknownMode| error.to_string())
}

/// Runs `unrack rpc bench`.
pub(super) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    if let Some(size) = args.sizes.iter().find(|size| !SIZES.contains(&size.get())) {
        return Err(CommandFailure::Usage(format!(
            "--sizes {size}: give 8B to {}",
            Bytes::new(*SIZES.end())
        )));
    }
    if let Some(socket) = &args.serve {
        server::serve_at(socket, args.waiting)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(hosts) = &args.hosts {
        return between::run(hosts, &args.waiting.to_string(), &args.words());
    }
    let (is_json, pool) = (args.json, args.pool.clone());
    let plan = args.plan();
    let (bar, mut begun) = (progress(plan.steps()), 0);
    let begin = |step: &str| {
        bar.set_message(step.to_string());
        bar.set_position(begun);
        begun += 1;
    };
    let results = match pool {
        Some(socket) => plan.run_at(&socket, begin),
        None => plan.run(process, begin),
    };
    bar.finish_and_clear();
    let results = results?;
    let json = || serde_json::to_string(&results).map(|text| text + "\n");
    print(&if is_json {
        json().map_err(|why| CommandFailure::Failed(why.to_string()))?
    } else {
        results.to_string()
    })?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Returns the command-line arguments that request the same measurements.
    fn words(&self) -> Vec<String> {
        let list = |name: &str, values: Vec<String>| [format!("--{name}"), values.join(",")];
        let rates = self.rates.iter().map(|rate| match rate {
            CallRate::None => "none".to_string(),
            CallRate::PerSecond(rate) => rate.to_string(),
        });
        let mut words = Vec::new();
        words.extend(list("sizes", self.sizes.iter().map(Bytes::to_string).collect()));
        words.extend(list("windows", self.windows.iter().map(u16::to_string).collect()));
        words.extend(list("connections", self.connections.iter().map(u16::to_string).collect()));
        words.extend(list("rates", rates.collect()));
        words.extend(list("waiting", vec![self.waiting.to_string()]));
        words.extend(list("time", vec![self.time.to_string()]));
        words.extend(list("rounds", vec![self.rounds.to_string()]));
        words.extend(self.json.then(|| "--json".to_string()));
        words
    }

    fn plan(self) -> BenchPlan {
        let per_second = |rate| match rate {
            CallRate::PerSecond(rate) => Some(rate),
            CallRate::None => None,
        };
        BenchPlan {
            sizes: self.sizes,
            windows: self.windows,
            connections: self.connections,
            rates: self.rates.into_iter().filter_map(per_second).collect(),
            memory: self.memory,
            waiting: self.waiting,
            time: Duration::from_secs_f64(self.time.as_secs_f64()),
            rounds: self.rounds,
            capacity: self.capacity,
        }
    }
}

fn progress(steps: usize) -> ProgressBar {
    const LOOK: &str = "{bar:24} {percent:>3} %  {msg} [{elapsed}, about {eta} left]";
    let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr());
    bar.with_style(ProgressStyle::with_template(LOOK).expect("the template is ours"))
}

/// Returns the command that starts the server's process: this program as `unrack rpc __serve`.
fn process(options: &server::Options) -> Result<Command, Error> {
    let server::Options { memory, waiting, capacity, core } = options;
    let mut command = Command::new(std::env::current_exe().map_err(Error::Start)?);
    command.args(["rpc", "__serve", "--memory", &memory.to_string(), "--waiting", &waiting.to_string()]);
    command.args(["--capacity", &capacity.to_string(), "--core", &core.to_string()]);
    Ok(command)
}

#[derive(clap::Args)]
pub(super) struct ServeArgs {
    #[arg(long)]
    memory: MemoryKind,
    #[arg(long)]
    waiting: WaitPolicy,
    #[arg(long)]
    capacity: Bytes,
    #[arg(long)]
    core: usize,
}

/// Runs `unrack rpc __serve`.
pub(super) fn serve(args: ServeArgs) -> Result<ExitCode, CommandFailure> {
    let ServeArgs { memory, waiting, capacity, core } = args;
    server::serve(&server::Options { memory, waiting, capacity, core })?;
    Ok(ExitCode::SUCCESS)
}

impl From<Error> for CommandFailure {
    fn from(error: Error) -> CommandFailure {
        let text = error.to_string();
        match error {
            Error::Pool(error) => error.into(),
            Error::Call(error) => error.into(),
            Error::Server { status: Some(2) } => CommandFailure::Usage(text),
            Error::OneCore | Error::Server { status: Some(3) } => CommandFailure::Lacking(text),
            Error::Core(_)
            | Error::Folder { .. }
            | Error::Start(_)
            | Error::Server { .. }
            | Error::Different { .. }
            | Error::Answer(_) => CommandFailure::Failed(text),
        }
    }
}
