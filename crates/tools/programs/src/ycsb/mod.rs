//! Runs YCSB's workloads (Cooper et al., SoCC 2010) on a store that is started for the run.
//!
//! ```text
//! Operations -> driver --commands, one batch for all connections--> store, a separate process
//!                      <--answers, whose bytes are added up--------
//! ```
//! The driver keeps one operation in flight on each connection, like YCSB's client threads but from a single thread. An insert is in flight
//! alone. Therefore each run has the same order of operations, and reads the same total of bytes.

mod connection;
mod driver;
mod memcached;
mod record;
mod redis;
mod server;

use crate::ProgramError;
use clap::ValueEnum;
use driver::Driver;
use server::Server;
use unrack_workload::ycsb::CoreWorkload;

/// Options of `unrack-programs ycsb`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Store to start and ask
    store: Store,
    /// Workloads, in this order [default: all that the store can do: a, b, c, f, d, and e with scans]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    workload: Vec<Letter>,
    /// Records that are loaded first, of ten fields of 100 B each
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// Operations of each workload
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    operations: u64,
    /// Connections, with one operation under way on each
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// redis-server: a record is a hash; scans follow a sorted set of all keys, as in YCSB's binding
    Redis,
    /// memcached: a record is one value, which an update writes anew; no scans
    Memcached,
}

impl Store {
    fn name(self) -> &'static str {
        match self {
            Store::Redis => "redis",
            Store::Memcached => "memcached",
        }
    }

    fn can(self, workload: CoreWorkload) -> bool {
        self == Store::Redis || workload != CoreWorkload::E
    }
}

/// A workload as an option names it.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Letter {
    A,
    B,
    C,
    D,
    E,
    F,
}

impl Letter {
    fn workload(self) -> CoreWorkload {
        match self {
            Letter::A => CoreWorkload::A,
            Letter::B => CoreWorkload::B,
            Letter::C => CoreWorkload::C,
            Letter::D => CoreWorkload::D,
            Letter::E => CoreWorkload::E,
            Letter::F => CoreWorkload::F,
        }
    }
}

/// Runs the workloads, and returns a line that summarizes them.
pub(crate) fn run(args: &Args) -> Result<String, ProgramError> {
    let asked: Vec<CoreWorkload> = args.workload.iter().map(|letter| letter.workload()).collect();
    if let Some(workload) = asked.iter().find(|workload| !args.store.can(**workload)) {
        return Err(ProgramError::Unable { store: args.store.name(), workload: workload.name() });
    }
    let workloads = match asked.is_empty() {
        true => CoreWorkload::ALL.into_iter().filter(|workload| args.store.can(*workload)).collect(),
        false => asked,
    };
    let server = Server::start(args.store)?;
    let mut driver = Driver::connect(&server, args)?;
    driver.load()?;
    for workload in &workloads {
        driver.run(*workload, args.operations)?;
    }
    let names: Vec<&str> = workloads.iter().map(|workload| workload.name()).collect();
    Ok(format!(
        "{}: {} records, workloads {} of {} operations each, {} records and {} bytes read",
        args.store.name(),
        args.records,
        names.join(""),
        args.operations,
        driver.read.records,
        driver.read.bytes
    ))
}
