//! Tables of a simulation: every message, and completion times of pages.

use std::path::Path;
use unrack_record::{RecordError, RunFolder, completions, messages};
use unrack_sim::Finished;
use unrack_sim::network::Network;
use unrack_units::Time;
use unrack_workload::{Kind, Message};

/// Writes `messages.parquet` and `completions.parquet` of a run on this network. The same run gives the same bytes.
pub(crate) fn write_tables(
    folder: &RunFolder,
    done: &Finished,
    network: &Network,
) -> Result<(), RecordError> {
    write_messages(&folder.path("messages.parquet"), done)?;
    write_completions(&folder.path("completions.parquet"), done, network)
}

/// Writes every message, also those that did not finish.
pub(crate) fn write_messages(path: &Path, done: &Finished) -> Result<(), RecordError> {
    let mut table = messages::Writer::create(path)?;
    for (index, (message, outcome)) in done.run.messages.iter().zip(&done.run.outcomes).enumerate() {
        table.push(messages::Row {
            id: index as u64,
            src: message.src,
            dst: message.dst,
            kind: kind(message.kind),
            bytes: message.bytes,
            submitted_ps: outcome.submitted.as_ps(),
            completed_ps: outcome.completed().map(Time::as_ps),
            ideal_ps: done.run.unloaded[index].as_ps(),
            slowdown: done.run.slowdown(index).unwrap_or(f64::NAN),
            retransmissions: outcome.retransmissions,
            drops: outcome.drops,
        })?;
    }
    table.finish(&messages::Meta { fabric: done.fabric.into() })
}

/// Writes the table that `unrack run --completions` draws from: reads that finished are fetches, writes write-backs.
/// Other messages are no pages.
pub(crate) fn write_completions(path: &Path, done: &Finished, network: &Network) -> Result<(), RecordError> {
    let mut table = completions::Writer::create(path)?;
    for (message, outcome) in done.run.messages.iter().zip(&done.run.outcomes) {
        if let (Some(kind), Some(completion)) = (page(message), outcome.completion()) {
            table.push(completions::Row {
                kind,
                bytes: message.bytes,
                completion_ps: completion.as_ps(),
                ideal_ps: network.ideal(message).as_ps(),
            })?;
        }
    }
    table.finish(&completions::Meta {
        fabric: done.fabric.into(),
        link_rate_bps: network.host_rate().as_bps(),
    })
}

/// Returns the direction of a page with this message, if it carries one.
fn page(message: &Message) -> Option<completions::Kind> {
    match message.kind {
        Kind::Read => Some(completions::Kind::Fetch),
        Kind::Write => Some(completions::Kind::WriteBack),
        Kind::Rmw | Kind::Flow => None,
    }
}

fn kind(kind: Kind) -> messages::Kind {
    match kind {
        Kind::Read => messages::Kind::Read,
        Kind::Write => messages::Kind::Write,
        Kind::Rmw => messages::Kind::Rmw,
        Kind::Flow => messages::Kind::Flow,
    }
}
