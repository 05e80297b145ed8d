//! `unrack-kv`: serves a store, and runs YCSB on one.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;
use unrack_kv::driver::{self, DriverResult, DriverSettings};
use unrack_kv::{Client, StoreService};
use unrack_pool::{Manager, Options, socket};
use unrack_rpc::{WaitPolicy, client, server};
use unrack_units::{Bytes, Share, Time};
use unrack_workload::ycsb::CoreWorkload;

const EXAMPLES: &str = "\
Examples:
  unrack-kv ycsb                               all workloads, on a store and a pool of its own
  unrack-kv ycsb --workload a,b --value 100B --records 1000000 --time 10s
  unrack pool serve & unrack-kv serve          a store for programs of this user
  unrack-kv ycsb --socket /run/user/1000/unrack/pool.sock";

/// A key-value store whose values are read in place, and YCSB for it
#[derive(Parser)]
#[command(name = "unrack-kv", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Serves a store over a pool, until another pool is served there
    Serve(ServeOptions),
    /// Runs YCSB's workloads and prints how long operations take
    Ycsb(Ycsb),
    /// Role as the server of `unrack-kv ycsb`
    #[command(name = "__serve", hide = true)]
    Own(OwnStore),
}

#[derive(clap::Args)]
struct ServeOptions {
    /// Socket of the pool [default: unrack/pool.sock in $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Listen for clients that share no memory too, at tcp://host:port; beyond loopback, only trusted keys may
    /// read and write (`unrack keys`)
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Listen beyond loopback without encryption: everyone that reaches the address may read and write
    #[arg(long, requires = "listen")]
    insecure: bool,
    /// Name by which clients find the store
    #[arg(long, default_value = "kv")]
    name: String,
    /// Behaviour between calls: spin, adaptive or sleep
    #[arg(long, value_name = "HOW", default_value = "adaptive")]
    waiting: WaitPolicy,
}

#[derive(clap::Args)]
struct Ycsb {
    /// Workloads, in this order
    #[arg(long, value_delimiter = ',', default_value = "a,b,c,f", value_parser = workloads())]
    workload: Vec<CoreWorkload>,
    /// Number of records, which are written first
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// Bytes of each value
    #[arg(long, value_name = "SIZE", default_value = "1000B")]
    value: Bytes,
    /// Number of threads, with a connection each
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,
    /// Time that each workload runs
    #[arg(long, value_name = "TIME", default_value = "2s")]
    time: Time,
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Behaviour until an answer comes: spin, adaptive or sleep; an own store does the same
    #[arg(long, value_name = "HOW", default_value = "spin")]
    waiting: WaitPolicy,
    /// Pool of a running store, or tcp://host:port; without it, a store and a pool are started for the run
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Connect beyond loopback without encryption
    #[arg(long, requires = "socket")]
    insecure: bool,
    /// Name of the store
    #[arg(long, default_value = "kv")]
    name: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct OwnStore {
    folder: PathBuf,
    capacity: Bytes,
    waiting: WaitPolicy,
}

/// Returns the parser of the workloads' letters, with a help text for each letter.
fn workloads() -> impl TypedValueParser<Value = CoreWorkload> {
    let value = |workload: CoreWorkload| PossibleValue::new(workload.name()).help(workload.about());
    let named = |name: String| CoreWorkload::FIXED.into_iter().find(|workload| workload.name() == name);
    PossibleValuesParser::new(CoreWorkload::FIXED.map(value))
        .map(move |name| named(name).expect("a possible value"))
}

type KvFailure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Serve(args) => args.run(),
        Verb::Ycsb(args) => args.run(),
        Verb::Own(args) => args.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "unrack-kv: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the address with a scheme that needs no keys.
fn without_keys(place: &str) -> String {
    match place.strip_prefix("tcp://") {
        Some(rest) => format!("tcp+insecure://{rest}"),
        None => place.into(),
    }
}

impl ServeOptions {
    fn run(self) -> Result<(), KvFailure> {
        let socket = self.socket.unwrap_or_else(socket::default_socket);
        let listen = self.listen.map(|place| if self.insecure { without_keys(&place) } else { place });
        let options = server::Options { waiting: self.waiting, listen, ..server::Options::default() };
        StoreService::start(socket, &self.name, options)?.wait();
        Err("the manager of the pool is gone".into())
    }
}

impl Ycsb {
    fn run(self) -> Result<(), KvFailure> {
        if self.time == Time::ZERO {
            return Err("--time 0s leaves nothing to measure: give the workloads some time".into());
        }
        let own = match self.socket {
            None => {
                let store = Store::start(self.capacity()?, self.waiting)?;
                keep_to_core(0);
                Some(store)
            }
            Some(_) => None,
        };
        let name = if own.is_some() { "kv" } else { &self.name };
        let theirs = self.socket.as_ref().map(|place| match place.to_str() {
            Some(text) if self.insecure => without_keys(text).into(),
            _ => place.clone(),
        });
        let socket = own.as_ref().map(|store| socket_in(&store.folder)).or(theirs).expect("one of both");
        let options = client::Options { waiting: self.waiting, ..client::Options::default() };
        let connect = || Client::connect(&socket, name, options.clone());
        driver::load(&connect()?, self.records, self.value.get() as usize)?;
        let mut outcomes = Vec::new();
        for &workload in &self.workload {
            let run = DriverSettings {
                workload,
                records: self.records,
                value_bytes: self.value.get() as usize,
                clients: self.clients,
                time: Duration::from_secs_f64(self.time.as_secs_f64()),
                seed: self.seed,
            };
            let outcome = driver::run(&run, connect)?;
            if !self.json {
                std::io::stdout().write_all(table(&outcome).as_bytes())?;
            }
            outcomes.push(outcome);
        }
        if self.json {
            let text =
                serde_json::json!({ "records": self.records, "value": self.value, "outcomes": outcomes });
            std::io::stdout().write_all(format!("{text}\n").as_bytes())?;
        }
        Ok(())
    }

    /// Returns the size of the pool: enough for all values in their buffers, which are rounded up, and for values that
    /// are being read and sent.
    fn capacity(&self) -> Result<Bytes, KvFailure> {
        let each =
            self.value.get().checked_add(64).and_then(|bytes| bytes.checked_mul(3)).map(|bytes| bytes / 2);
        let values = each.and_then(|each| each.checked_mul(self.records));
        let all = values.and_then(|values| values.checked_add(256 << 20));
        all.and_then(|all| all.checked_next_multiple_of(unrack_pool::SECTION)).map(Bytes::new).ok_or_else(
            || {
                format!("--records {} of --value {} are more than a pool can hold", self.records, self.value)
                    .into()
            },
        )
    }
}

/// Returns the figures of a workload as text.
fn table(outcome: &DriverResult) -> String {
    let mut text = format!("workload {:?}: {:.0} operations/s\n", outcome.workload, outcome.operations_per_s);
    let names =
        ["p50 ns", "p95 ns", "p99 ns", "p99.9 ns", "max ns"].map(|name| format!("{name:>10}")).join(" ");
    text += &format!("  {:<18} {:>10} {names}\n", "", "count");
    for times in &outcome.times {
        let figures = [times.p50_ns, times.p95_ns, times.p99_ns, times.p999_ns, times.max_ns];
        let figures = figures.map(|ns| format!("{ns:>10}")).join(" ");
        text += &format!("  {:<18} {:>10} {figures}\n", format!("{:?}", times.operation), times.count);
    }
    text
}

/// Pins this process to one core. The client and the store of this run use one each of the first two allowed cores, if
/// there are two.
fn keep_to_core(which: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).take(2).collect();
    if let [_, _] = cores[..] {
        let mut set = CpuSet::new();
        set.set(cores[which]);
        // If pinning is not allowed, the run continues without it.
        let _ = sched_setaffinity(None, &set);
    }
}

fn socket_in(folder: &Path) -> PathBuf {
    folder.join("pool")
}

impl OwnStore {
    /// Serves until standard input is closed, either by the parent or because the parent has ended.
    fn run(self) -> Result<(), KvFailure> {
        keep_to_core(1);
        std::fs::create_dir(&self.folder)?;
        let served = self.serve();
        if served.is_ok() {
            let _ = std::io::stdout().write_all(b"ready\n");
            let _ = std::io::stdin().read(&mut [0]);
        }
        let ended = served.map(drop);
        let _ = std::fs::remove_dir_all(&self.folder);
        ended
    }

    fn serve(&self) -> Result<(StoreService, Manager), KvFailure> {
        let mut options = Options::new(socket_in(&self.folder), self.capacity);
        // The store needs nearly the whole pool, so it may use all of it.
        options.per_client = Some(Share::Size(self.capacity));
        let manager = Manager::start(&options)?;
        let options = server::Options { waiting: self.waiting, ..server::Options::default() };
        Ok((StoreService::start(manager.socket(), "kv", options)?, manager))
    }
}

/// A store and a pool in a separate process, which ends together with this one.
struct Store {
    process: Child,
    folder: PathBuf,
}

impl Store {
    fn start(capacity: Bytes, waiting: WaitPolicy) -> Result<Store, KvFailure> {
        let folder = std::env::temp_dir().join(format!("unrack-kv-{}", std::process::id()));
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("__serve").arg(&folder).args([capacity.to_string(), waiting.to_string()]);
        // The process gets a separate process group, so that a signal from the terminal does not interrupt it before it
        // has removed its folder.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut store = Store { process: command.spawn()?, folder };
        let mut said = store.process.stdout.take().expect("it is piped");
        said.read_exact(&mut [0; 6]).map_err(|_| "the store did not start")?;
        Ok(store)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
