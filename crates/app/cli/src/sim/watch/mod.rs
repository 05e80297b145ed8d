//! Observers of a simulation in addition to its results: links over time, packets, and the time of one message.

mod capture;
mod explained;
mod timeline;

use self::capture::PacketCapture;
pub(super) use self::explained::Explained;
use self::timeline::PacketTimeline;
use crate::failure::CommandFailure;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use unrack_grid::memory_left::MemoryLeft;
use unrack_grid::tables::port_rows;
use unrack_rack::ValidScenario;
use unrack_record::{RecordError, ports};
use unrack_sim::network::Network;
use unrack_sim::observe::{Journal, LinkSamples, Only, Packets, Views, explain};
use unrack_sim::topology::Topology;
use unrack_sim::{Finished, LinkId, Need, Setup, Work};
use unrack_units::Time;
use unrack_units::nearest::hint;
use unrack_workload::MessageId;

#[derive(clap::Args)]
#[group(id = "watch")]
pub(super) struct Args {
    /// Write utilization and queues of links over time to this Parquet file
    #[arg(long, value_name = "FILE")]
    ports: Option<PathBuf>,
    /// Interval of --ports
    #[arg(long, value_name = "TIME", default_value = "10us", requires = "ports")]
    every: Time,
    /// Write packets to this capture (pcapng), for Wireshark
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Write packets over time to this file, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Packets that --pcap and --perfetto take: message=N, node=N or port=N
    #[arg(long, value_name = "WHAT", value_parser = only)]
    only: Option<Only>,
    /// Print a breakdown of this message's time; messages count from 0
    #[arg(long, value_name = "MESSAGE")]
    explain: Option<u32>,
}

/// Keys that `--only` accepts.
const CHOSEN_BY: [&str; 3] = ["message", "node", "port"];

fn only(text: &str) -> Result<Only, String> {
    let parsed = text.split_once('=').and_then(|(what, number)| Some((what, number.parse().ok()?)));
    match parsed {
        Some(("message", number)) => Ok(Only::Message(MessageId(number))),
        Some(("node", number)) => Ok(Only::Node(number)),
        Some(("port", number)) => Ok(Only::Port(number)),
        Some((what, _)) => Err(format!("packets cannot be selected by `{what}`{}", hint(what, &CHOSEN_BY))),
        None => Err("write message=N, node=N or port=N".into()),
    }
}

impl Args {
    fn asks(&self) -> bool {
        let files = [&self.ports, &self.pcap, &self.perfetto];
        files.into_iter().any(Option::is_some) || self.explain.is_some() || self.only.is_some()
    }

    /// Fails if there is too little memory for the samples. The check is possible only if the length of the run is known in advance.
    pub(super) fn check_memory(
        &self,
        scenario: &ValidScenario,
        setup: &Setup,
        work: &Work,
        need: Need,
    ) -> Result<(), CommandFailure> {
        if self.ports.is_none() || self.every == Time::ZERO {
            return Ok(());
        }
        let length = setup.length_of(work).map_err(|why| why.in_scenario(scenario))?;
        let intervals = length.as_ps() as f64 / self.every.as_ps() as f64;
        Ok(MemoryLeft::now().check(&need.with_samples(scenario, intervals))?)
    }

    /// Opens the files of all observers, so that a file that cannot be written is reported before the run. `None` if there are no
    /// observers.
    pub(super) fn open(
        &self,
        setup: &Setup,
        fabric: &'static str,
    ) -> Result<Option<Watching>, CommandFailure> {
        if !self.asks() {
            return Ok(None);
        }
        let topology = &setup.network.topology;
        let usage = |why: &str| Err(CommandFailure::Usage(why.into()));
        match self.only {
            Some(_) if self.pcap.is_none() && self.perfetto.is_none() => {
                return usage("--only goes with --pcap or --perfetto");
            }
            Some(Only::Node(node)) if node >= topology.nodes() => {
                return usage(&format!("--only node={node}: there are nodes 0 to {}", topology.nodes() - 1));
            }
            Some(Only::Port(port)) if port >= topology.ports() => {
                return usage(&format!("--only port={port}: there are ports 0 to {}", topology.ports() - 1));
            }
            _ if self.every == Time::ZERO => return usage("--every is above 0"),
            _ => {}
        }
        let only = self.only.unwrap_or_default();
        let opened = || -> Result<Watching, RecordError> {
            let ports = self.ports.as_ref().map(ports::Writer::create).transpose()?;
            let capture = self
                .pcap
                .as_ref()
                .map(|path| PacketCapture::create(path, topology, setup.fabric.wire()))
                .transpose()?;
            let timeline =
                self.perfetto.as_ref().map(|path| PacketTimeline::create(path, topology)).transpose()?;
            let explain = self.explain.map(MessageId);
            let sinks = RefCell::new(Sinks { capture, timeline, failed: None });
            let (network, every) = (setup.network.clone(), self.every);
            Ok(Watching { ports, every, sinks, only, explain, network, fabric })
        };
        opened().map(Some).map_err(|why| CommandFailure::Usage(why.to_string()))
    }

    /// Returns the files that were written.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.ports, &self.pcap, &self.perfetto].into_iter().flatten().map(PathBuf::as_path)
    }
}

/// Observers of one run.
pub(super) struct Watching {
    ports: Option<ports::Writer>,
    every: Time,
    sinks: RefCell<Sinks>,
    only: Only,
    explain: Option<MessageId>,
    network: Network,
    fabric: &'static str,
}

/// Files to which packets are written.
struct Sinks {
    capture: Option<PacketCapture>,
    timeline: Option<PacketTimeline>,
    /// First write error.
    failed: Option<RecordError>,
}

impl Watching {
    /// Calls `run` with the observers, then completes the files. Also returns the breakdown of the requested message.
    pub(super) fn run(
        self,
        run: impl FnOnce(&mut Views) -> Result<Finished, CommandFailure>,
    ) -> Result<(Finished, Option<Explained>), CommandFailure> {
        let (done, links, journal) = self.watched(run)?;
        self.finish(done, links, journal)
    }

    fn watched(
        &self,
        run: impl FnOnce(&mut Views) -> Result<Finished, CommandFailure>,
    ) -> Result<(Finished, Option<LinkSamples>, Option<Journal>), CommandFailure> {
        let topology = &self.network.topology;
        let packets = self.sinks.borrow().takes_packets().then(|| {
            Packets::new(|hop, message| {
                if self.only.takes(hop, topology) {
                    self.sinks.borrow_mut().packet(hop, message);
                }
            })
        });
        let mut told: Vec<MessageId> = self.explain.into_iter().collect();
        if let Only::Message(id) = self.only {
            told.push(id);
        }
        let room = MemoryLeft::now().for_a_table();
        let links = self.ports.is_some().then(|| LinkSamples::new(self.every).within(room));
        let journal = (!told.is_empty()).then(|| Journal::new(told));
        let mut watch = Views { links, packets, journal, ..Views::default() };
        let done = run(&mut watch)?;
        watch.packets.into_iter().for_each(Packets::finish);
        Ok((done, watch.links, watch.journal))
    }

    fn finish(
        self,
        done: Finished,
        links: Option<LinkSamples>,
        journal: Option<Journal>,
    ) -> Result<(Finished, Option<Explained>), CommandFailure> {
        let explained = |id| journal.as_ref().and_then(|journal| explain(journal, &self.network, id));
        if let Some(full) = links.as_ref().and_then(LinkSamples::full) {
            return Err(CommandFailure::Failed(format!(
                "--every {}: the samples of links up to {full} fill the memory for them: give a longer interval",
                self.every
            )));
        }
        if let (Some(writer), Some(links)) = (self.ports, &links) {
            write_ports(writer, links, self.fabric)?;
        }
        let Sinks { capture, timeline, failed } = self.sinks.into_inner();
        if let Some(why) = failed {
            return Err(why.into());
        }
        capture.map(PacketCapture::finish).transpose()?;
        if let Some(timeline) = timeline {
            let of = match self.only {
                Only::Message(id) => explained(id).map(|explanation| (id, explanation)),
                _ => None,
            };
            timeline.finish(of)?;
        }
        let Some(id) = self.explain else { return Ok((done, None)) };
        let explanation = explained(id).ok_or_else(|| not_explained(&done, id))?;
        let unloaded = done.run.unloaded[id.index()];
        Ok((done, Some(Explained { id, explanation, unloaded })))
    }
}

fn not_explained(done: &Finished, id: MessageId) -> CommandFailure {
    let messages = done.run.messages.len();
    let why = match messages {
        _ if id.index() < messages => "it did not finish".to_string(),
        0 => "the run has none".to_string(),
        _ => format!("the run has messages 0 to {}", messages - 1),
    };
    CommandFailure::Usage(format!("--explain {}: {why}", id.0))
}

impl Sinks {
    fn takes_packets(&self) -> bool {
        self.capture.is_some() || self.timeline.is_some()
    }

    fn packet(&mut self, hop: &unrack_sim::Hop, message: Option<&unrack_workload::Message>) {
        if self.failed.is_some() {
            return;
        }
        let captured = self.capture.as_mut().map_or(Ok(()), |capture| capture.packet(hop, message));
        let drawn = self.timeline.as_mut().map_or(Ok(()), |timeline| timeline.packet(hop));
        self.failed = captured.and(drawn).err();
    }
}

fn write_ports(mut writer: ports::Writer, links: &LinkSamples, fabric: &str) -> Result<(), RecordError> {
    let (meta, rows) = port_rows(links, fabric);
    rows.into_iter().try_for_each(|row| writer.push(row))?;
    writer.finish(&meta)
}

/// Describes one direction of a link.
fn link_name(link: LinkId, topology: &Topology) -> String {
    use unrack_sim::topology::LinkEnd;
    match link {
        LinkId::Host(link) => match link.checked_sub(topology.nodes()) {
            Some(node) => format!("CXL port of node {node} to switch {}", topology.switch_at(link)),
            None => format!("node {link} to switch {}", topology.switch_at(link)),
        },
        LinkId::Port(port) => {
            let from = topology.owner(port);
            match topology.end(port) {
                LinkEnd::Node(node) => format!("port {port}: switch {from} to node {node}"),
                LinkEnd::Switch(to) => format!("port {port}: switch {from} to switch {to}"),
            }
        }
    }
}
