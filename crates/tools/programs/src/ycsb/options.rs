//! Options of the program, with its stores and workloads.

use clap::ValueEnum;
use unrack_workload::ycsb::CoreWorkload;

/// Options of `unrack-programs ycsb`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Store to start and ask
    pub(super) store: Store,
    /// Workloads, in this order [default: all that the store can do: a, b, c, f, d, and e with scans]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(super) workload: Vec<Letter>,
    /// Records that are loaded first, of ten fields of 100 B each
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) records: u64,
    /// Operations of each workload
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(super) operations: u64,
    /// Connections, with one operation under way on each
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) connections: u16,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
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
    pub(super) fn name(self) -> &'static str {
        match self {
            Store::Redis => "redis",
            Store::Memcached => "memcached",
        }
    }

    pub(super) fn can(self, workload: CoreWorkload) -> bool {
        self == Store::Redis || workload != CoreWorkload::E
    }
}

/// A workload as an option names it.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Letter {
    A,
    B,
    C,
    D,
    E,
    F,
}

impl Letter {
    pub(super) fn workload(self) -> CoreWorkload {
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
