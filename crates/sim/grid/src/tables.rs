//! Tables of a simulation: all messages, and the completion times of pages.

use std::path::Path;
use unrack_record::{RecordError, RunFolder, completions, messages, ports};
use unrack_sim::network::Network;
use unrack_sim::observe::{LinkSample, LinkSamples};
use unrack_sim::{Finished, LinkId};
use unrack_units::Time;
use unrack_workload::{Kind, Message};

/// Writes `messages.parquet` and `completions.parquet` of a run on this network. The same run always gives the same
/// bytes.
///
/// # Errors
/// If a file cannot be written.
pub fn write_tables(folder: &RunFolder, done: &Finished, network: &Network) -> Result<(), RecordError> {
    write_messages(&folder.path("messages.parquet"), done, network)?;
    write_completions(&folder.path("completions.parquet"), done, network)
}

/// Writes all messages, including those that did not finish.
fn write_messages(path: &Path, done: &Finished, network: &Network) -> Result<(), RecordError> {
    let mut table = messages::Writer::create(path)?;
    message_rows(done, network).try_for_each(|row| table.push(row))?;
    table.finish(&message_meta(done))
}

/// Returns the rows of all messages of a run on this network, including those that did not finish.
pub fn message_rows<'a>(
    done: &'a Finished,
    network: &'a Network,
) -> impl Iterator<Item = messages::Row> + use<'a> {
    let all = done.run.messages.iter().zip(&done.run.outcomes).enumerate();
    all.map(move |(index, (message, outcome))| messages::Row {
        id: index as u64,
        src: message.src,
        dst: message.dst,
        kind: kind(message.kind),
        bytes: message.bytes,
        submitted_ps: outcome.submitted.as_ps(),
        completed_ps: outcome.completed().map(Time::as_ps),
        unloaded_ps: done.run.unloaded[index].as_ps(),
        ideal_ps: network.ideal(message).as_ps(),
        slowdown: done.run.slowdown(index).unwrap_or(f64::NAN),
        retransmissions: outcome.retransmissions,
        drops: outcome.drops,
        trims: outcome.trims,
    })
}

/// Returns the metadata of the table of messages.
pub fn message_meta(done: &Finished) -> messages::Meta {
    messages::Meta { fabric: done.fabric.into() }
}

/// Writes the table from which `unrack run --completions` draws. Finished reads become fetches, and finished writes
/// become write-backs. Other messages are left out, because they do not carry pages.
///
/// # Errors
/// If the file cannot be written.
pub fn write_completions(path: &Path, done: &Finished, network: &Network) -> Result<(), RecordError> {
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

/// Returns whether the message carries a page as a fetch or as a write-back; `None` if it carries no page.
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

/// Returns the metadata and the rows of the table of links over time.
pub fn port_rows(links: &LinkSamples, fabric: &str) -> (ports::Meta, Vec<ports::Row>) {
    let interval = links.every();
    let row = |sample: LinkSample| {
        let (kind, number) = match sample.link {
            LinkId::Host(node) => (ports::Kind::Host, node),
            LinkId::Port(port) => (ports::Kind::Port, port),
        };
        ports::Row {
            from_ps: sample.from.as_ps(),
            kind,
            number,
            busy_ps: sample.busy.as_ps(),
            utilization: sample.busy.as_ps() as f64 / interval.as_ps() as f64,
            packets: sample.packets,
            wire_bytes: sample.wire_bytes,
            payload_bytes: sample.payload_bytes,
            queue_mean_bytes: sample.queue_mean_bytes,
            queue_max_bytes: sample.queue_max_bytes,
        }
    };
    let meta = ports::Meta { fabric: fabric.into(), interval_ps: interval.as_ps() };
    (meta, links.samples().map(row).collect())
}
