//! Writes the blocks that crossed the links as a packet capture and as waveforms.

use crate::failure::CommandFailure;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use unrack_phy::edm::demux::MemoryBlock;
use unrack_phy::edm::layout::{MS, MT};
use unrack_phy::edm::{Demux, MuxPolicy};
use unrack_phy::mac::Deframer;
use unrack_phy::pcs::BlockDecoder;
use unrack_phy::stack::testbed::BlockInFlight;
use unrack_phy::text::listing;
use unrack_phy::{Block, CONTROL};
use unrack_protocol::edm::steps::PCS_CYCLE;
use unrack_record::pcapng::{Captured, LinkType, Pcapng};
use unrack_record::waves::{Signal, Waves};

/// Rate of a link in bits/s: one block of 64 bits per cycle.
const RATE_BPS: u64 = 25_000_000_000;

/// One direction of a link, as its receiver decodes it.
struct LinkDirection {
    memory: u32,
    frames: u32,
    demux: Demux,
    decoder: BlockDecoder,
    deframer: Deframer,
    message: Vec<Block>,
    /// Cycle after the last one that was processed. The cycles from here up to the next block are idle.
    next: u64,
}

/// Writes a capture. Messages are records of type USER0, whose layout is in docs/phy.md; frames are Ethernet packets.
pub(super) fn capture(
    path: &Path,
    crossings: &[BlockInFlight],
    policy: MuxPolicy,
) -> Result<(), CommandFailure> {
    let mut file = Pcapng::create(path)?;
    let mut ways: BTreeMap<(u16, bool), LinkDirection> = BTreeMap::new();
    for crossing in crossings {
        let key = (crossing.node, crossing.up);
        let way = match ways.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(LinkDirection::new(&mut file, crossing, policy)?),
        };
        way.idle_to(&mut file, crossing.cycle)?;
        way.block(&mut file, crossing.block)?;
    }
    for way in ways.values_mut() {
        way.idle_to(&mut file, way.next + way.demux.kept() as u64 + 2)?;
    }
    Ok(file.finish()?)
}

impl LinkDirection {
    fn new(
        file: &mut Pcapng,
        crossing: &BlockInFlight,
        policy: MuxPolicy,
    ) -> Result<LinkDirection, CommandFailure> {
        let node = crossing.node;
        let name =
            if crossing.up { format!("node {node} to switch") } else { format!("switch to node {node}") };
        Ok(LinkDirection {
            memory: file.interface(&format!("{name}, memory"), LinkType::User0, RATE_BPS)?,
            frames: file.interface(&format!("{name}, frames"), LinkType::Ethernet, RATE_BPS)?,
            demux: Demux::new(policy),
            decoder: BlockDecoder::default(),
            deframer: Deframer::default(),
            message: Vec::new(),
            next: crossing.cycle,
        })
    }

    fn idle_to(&mut self, file: &mut Pcapng, cycle: u64) -> Result<(), CommandFailure> {
        while self.next < cycle {
            self.block(file, Block::IDLE)?;
        }
        Ok(())
    }

    fn block(&mut self, file: &mut Pcapng, block: Block) -> Result<(), CommandFailure> {
        let time_ps = (PCS_CYCLE * (self.next + 1)).as_ps();
        self.next += 1;
        let received = self.demux.tick(block);
        if let Some(MemoryBlock::Block(block)) = received.memory {
            self.memory_block(file, block, time_ps)?;
        }
        if let Some(Ok(frame)) = self.deframer.handle(self.decoder.decode(received.to_decoder)) {
            let length = frame.len() as u32;
            file.packet(&Captured { interface: self.frames, time_ps, bytes: frame, length, comment: "" })?;
        }
        Ok(())
    }

    fn memory_block(&mut self, file: &mut Pcapng, block: Block, time_ps: u64) -> Result<(), CommandFailure> {
        let is_part = block.header != CONTROL || matches!(block.block_type(), Some(MS | MT));
        if !is_part {
            return self.record(file, &[block], time_ps);
        }
        if block.block_type() == Some(MS) {
            self.message.clear();
        }
        self.message.push(block);
        if block.block_type() == Some(MT) {
            let message = std::mem::take(&mut self.message);
            return self.record(file, &message, time_ps);
        }
        Ok(())
    }

    /// Writes the record of a message: `UE`, version 1, a zero, then nine bytes per block: the sync header, and the payload in the order of
    /// the line.
    fn record(&self, file: &mut Pcapng, blocks: &[Block], time_ps: u64) -> Result<(), CommandFailure> {
        let mut bytes = vec![b'U', b'E', 1, 0];
        for block in blocks {
            bytes.push(block.header);
            bytes.extend(block.payload.to_le_bytes());
        }
        let length = bytes.len() as u32;
        Ok(file.packet(&Captured { interface: self.memory, time_ps, bytes: &bytes, length, comment: "" })?)
    }
}

/// Writes waveforms for each direction of each link: sync header, payload and name of the block in every cycle.
pub(super) fn waves(
    mut file: impl Waves,
    crossings: &[BlockInFlight],
    nodes: u16,
    cycles: u64,
) -> Result<(), CommandFailure> {
    let mut ways = Vec::new();
    for node in 0..nodes {
        for up in [true, false] {
            let scope = if up { format!("node{node}_up") } else { format!("node{node}_down") };
            let mut signal = |name, signal| file.signal(&scope, name, signal);
            ways.push([
                signal("header", Signal::Bits(2)),
                signal("payload", Signal::Bits(64)),
                signal("name", Signal::Text),
            ]);
        }
    }
    file.begin()?;
    let mut crossings = crossings.iter().peekable();
    for cycle in 0..cycles {
        let mut now = vec![Block::IDLE; ways.len()];
        while let Some(crossing) = crossings.next_if(|crossing| crossing.cycle <= cycle) {
            now[2 * usize::from(crossing.node) + usize::from(!crossing.up)] = crossing.block;
        }
        for (way, block) in ways.iter().zip(now) {
            file.bits(way[0], u64::from(block.header));
            file.bits(way[1], block.payload);
            file.text(way[2], listing::describe(block).0);
        }
        file.step()?;
    }
    Ok(file.finish()?)
}
