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
mod options;
mod record;
mod redis;
mod server;

pub use options::Args;

use crate::ProgramError;
use driver::Driver;
use server::Server;
use unrack_workload::ycsb::CoreWorkload;

/// Runs the workloads, and returns a line that summarizes the results.
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
