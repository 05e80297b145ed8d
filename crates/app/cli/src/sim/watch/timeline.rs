//! Timeline of packets in the trace-event format, which ui.perfetto.dev and chrome://tracing can open.
//!
//! Each direction of a link is a track. On the track, each packet is a slice as long as its transmission, and a counter shows the bytes
//! that wait for the link. The chosen message has a separate track with the breakdown of its time.

use super::explained::where_text;
use super::link_name;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use unrack_record::{AtomicFile, RecordError};
use unrack_sim::observe::Explanation;
use unrack_sim::topology::Topology;
use unrack_sim::{Hop, LinkId};
use unrack_units::Time;
use unrack_workload::MessageId;

pub(super) struct PacketTimeline {
    file: BufWriter<AtomicFile>,
    topology: Topology,
    tracks: BTreeMap<LinkId, Track>,
    events: u64,
}

struct Track {
    number: usize,
    /// End of the previous slice, because slices of a track must not overlap.
    until: Time,
    /// Times at which bytes started (positive) or stopped (negative) waiting, with their number.
    waiting: Vec<(Time, i64)>,
}

/// Processes in the sense of the format, which group tracks.
const LINKS: u32 = 1;
const MESSAGES: u32 = 2;

impl PacketTimeline {
    /// Creates the file.
    pub(super) fn create(path: &Path, topology: &Topology) -> Result<PacketTimeline, RecordError> {
        let file = BufWriter::new(AtomicFile::create(path)?);
        let mut timeline =
            PacketTimeline { file, topology: topology.clone(), tracks: BTreeMap::new(), events: 0 };
        timeline.write(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        timeline
            .event(&json!({"ph": "M", "name": "process_name", "pid": LINKS, "args": {"name": "links"}}))?;
        Ok(timeline)
    }

    /// Writes a packet.
    pub(super) fn packet(&mut self, hop: &Hop) -> Result<(), RecordError> {
        if !self.tracks.contains_key(&hop.link) {
            self.name(hop.link)?;
        }
        let track = self.tracks.get_mut(&hop.link).expect("named above");
        if hop.ready < hop.first {
            let wire = i64::from(hop.wire);
            track.waiting.extend([(hop.ready, wire), (hop.first, -wire)]);
        }
        let from = hop.first.max(track.until).min(hop.last);
        track.until = hop.last;
        let event = json!({
            "ph": "X", "pid": LINKS, "tid": track.number, "ts": us(from), "dur": us(hop.last - from),
            "name": name(hop),
            "args": {
                "src": hop.packet.src, "dst": hop.packet.dst, "offset": hop.packet.offset,
                "wire_bytes": hop.wire, "payload_bytes": hop.payload, "priority": hop.packet.priority,
                "waited_ns": (hop.first - hop.ready).as_ns_f64(), "marked": hop.packet.marked,
            },
        });
        self.event(&event)
    }

    /// Completes the file and moves it to its final name. `of` is the chosen message.
    pub(super) fn finish(mut self, of: Option<(MessageId, Explanation)>) -> Result<(), RecordError> {
        for (link, mut track) in std::mem::take(&mut self.tracks) {
            track.waiting.sort_unstable();
            let name = format!("bytes waiting, {}", link_name(link, &self.topology));
            let mut bytes = 0;
            for (n, (at, more)) in track.waiting.iter().enumerate() {
                bytes += more;
                if track.waiting.get(n + 1).is_none_or(|(next, _)| next > at) {
                    let args = json!({"bytes": bytes});
                    let event = json!({"ph": "C", "pid": LINKS, "ts": us(*at), "name": name, "args": args});
                    self.event(&event)?;
                }
            }
        }
        if let Some((id, explanation)) = of {
            self.message(id, &explanation)?;
        }
        self.write(b"\n]}\n")?;
        let path = self.file.get_ref().path().to_path_buf();
        let file = self.file.into_inner().map_err(|why| cannot_write(&path, why.into_error()))?;
        file.commit()
    }

    fn message(&mut self, id: MessageId, explanation: &Explanation) -> Result<(), RecordError> {
        let name = format!("message {}", id.0);
        self.event(
            &json!({"ph": "M", "name": "process_name", "pid": MESSAGES, "args": {"name": "messages"}}),
        )?;
        let args = json!({"name": name});
        self.event(&json!({"ph": "M", "name": "thread_name", "pid": MESSAGES, "tid": 0, "args": args}))?;
        for part in &explanation.parts {
            let (ts, dur, name) = (us(part.from), us(part.time), where_text(part.place));
            self.event(&json!({"ph": "X", "pid": MESSAGES, "tid": 0, "ts": ts, "dur": dur, "name": name}))?;
        }
        Ok(())
    }

    fn name(&mut self, link: LinkId) -> Result<(), RecordError> {
        let number = self.tracks.len();
        self.tracks.insert(link, Track { number, until: Time::ZERO, waiting: Vec::new() });
        let args = json!({"name": link_name(link, &self.topology)});
        self.event(&json!({"ph": "M", "name": "thread_name", "pid": LINKS, "tid": number, "args": args}))
    }

    fn event(&mut self, event: &Value) -> Result<(), RecordError> {
        self.write(if self.events == 0 { b"\n" } else { b",\n" })?;
        self.events += 1;
        self.write(event.to_string().as_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), RecordError> {
        let written = self.file.write_all(bytes);
        written.map_err(|why| cannot_write(self.file.get_ref().path(), why))
    }
}

fn cannot_write(path: &Path, why: io::Error) -> RecordError {
    RecordError::Io { action: "write", path: path.into(), why }
}

fn name(hop: &Hop) -> String {
    let kind = hop.packet.kind.name();
    hop.message.map_or(kind.to_string(), |id| format!("{kind} of {}", id.0))
}

/// Converts a time to microseconds, the unit of the format.
fn us(time: Time) -> f64 {
    time.as_ps() as f64 / 1e6
}
