//! Memory and frames on one line: what arrives at the other end, and how long memory waits.

use proptest::prelude::*;
use std::collections::VecDeque;
use unrack_phy::Block;
use unrack_phy::edm::demux::MemoryBlock;
use unrack_phy::edm::mux::BACK_PRESSURE;
use unrack_phy::edm::{Assembler, Body, Demux, Event, MemoryMessage, Mux, MuxPolicy};
use unrack_phy::mac::{Deframer, Framer};
use unrack_phy::pcs::{BlockDecoder, Encoder};

/// Returns the blocks of a MAC's sender.
fn encoded(frames: &[Vec<u8>], idle_between: usize) -> VecDeque<Block> {
    let (mut framer, mut columns) = (Framer::default(), Vec::new());
    framer.idle(1, &mut columns);
    for frame in frames {
        framer.frame(frame, &mut columns);
        framer.idle(idle_between, &mut columns);
    }
    let mut encoder = Encoder::default();
    columns.into_iter().map(|column| encoder.encode(column)).collect()
}

/// A standard receiver, from blocks to frames.
#[derive(Default)]
struct Standard {
    decoder: BlockDecoder,
    deframer: Deframer,
    frames: Vec<Vec<u8>>,
    bad: usize,
}

impl Standard {
    fn handle(&mut self, block: Block) {
        match self.deframer.handle(self.decoder.decode(block)) {
            Some(Ok(frame)) => self.frames.push(frame.to_vec()),
            Some(Err(_)) => self.bad += 1,
            None => {}
        }
    }
}

/// One direction of a link, cycle by cycle. Memory blocks are offered in the cycles of `memory`.
struct Run {
    line: Vec<Block>,
    messages: Vec<MemoryMessage>,
    standard: Standard,
    demux: Demux,
    /// Longest time that a memory block waited at the head of its queue, in cycles.
    waited: usize,
}

fn run(policy: MuxPolicy, mut frames: VecDeque<Block>, memory: &[(usize, Block)]) -> Run {
    let (mut mux, mut demux, mut assembler) = (Mux::new(policy), Demux::new(policy), Assembler::default());
    let mut standard = Standard::default();
    let (mut line, mut messages, mut waited, mut waiting) = (Vec::new(), Vec::new(), 0, 0);
    let mut memory: VecDeque<(usize, Block)> = memory.iter().copied().collect();
    let mut rest = 4 * BACK_PRESSURE;
    let mut cycle = 0;
    while rest > 0 {
        let frame = mux.takes_frame_block().then(|| frames.pop_front().unwrap_or(Block::IDLE));
        let offered = memory.front().filter(|(at, _)| *at <= cycle).map(|(_, block)| *block);
        let sent = mux.tick(frame, offered);
        assert!(mux.buffered() <= BACK_PRESSURE);
        waiting = if offered.is_some() && !sent.took_memory { waiting + 1 } else { 0 };
        waited = waited.max(waiting);
        if sent.took_memory {
            memory.pop_front();
        }
        line.push(sent.block);
        let received = demux.tick(sent.block);
        if let Some(MemoryBlock::Block(block)) = received.memory
            && let Some(Ok(Event::Message(message))) = assembler.handle(block)
        {
            messages.push(message);
        }
        standard.handle(received.to_decoder);
        if frames.is_empty() && memory.is_empty() && demux.kept() == 0 {
            rest -= 1;
        }
        cycle += 1;
    }
    Run { line, messages, standard, demux, waited }
}

fn policies() -> impl Strategy<Value = MuxPolicy> {
    prop_oneof![Just(MuxPolicy::Fair), Just(MuxPolicy::Strict)]
}

fn messages() -> impl Strategy<Value = Vec<(usize, usize)>> {
    proptest::collection::vec((0..60_usize, 0..200_usize), 0..30)
}

/// Schedules responses, given as (cycles after the previous one, bytes). Their blocks arrive with these gaps.
fn scheduled(messages: &[(usize, usize)], gaps: &[usize]) -> (Vec<MemoryMessage>, Vec<(usize, Block)>) {
    let (mut at, mut blocks, mut sent) = (0, Vec::new(), Vec::new());
    let mut gaps = gaps.iter().cycle();
    for (id, (after, bytes)) in messages.iter().enumerate() {
        at += after;
        let data = (0..*bytes).map(|byte| (byte * 7 + id) as u8).collect();
        let message = MemoryMessage { node: 5, id: id as u8, body: Body::Response { last: true, data } };
        let mut of_it = Vec::new();
        message.blocks(&mut of_it);
        for block in of_it {
            at += gaps.next().unwrap_or(&0);
            blocks.push((at, block));
        }
        sent.push(message);
    }
    (sent, blocks)
}

fn padded(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let padded = |frame: &Vec<u8>| {
        let mut frame = frame.clone();
        frame.resize(frame.len().max(60), 0);
        frame
    };
    frames.iter().map(padded).collect()
}

proptest! {
    #[test]
    fn frames_and_messages_both_arrive_whole(
        policy in policies(),
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..12),
        idle in 0..3_usize,
        messages in messages(),
        gaps in proptest::collection::vec(0..4_usize, 1..8),
    ) {
        let (sent, memory) = scheduled(&messages, &gaps);
        let run = run(policy, encoded(&frames, idle), &memory);
        prop_assert_eq!(&run.messages, &sent);
        prop_assert_eq!(&run.standard.frames, &padded(&frames));
        prop_assert_eq!(run.standard.bad, 0);
        prop_assert!(!run.demux.wrong().any(), "{:?}", run.demux.wrong());
        if policy == MuxPolicy::Fair {
            prop_assert!(run.waited <= 1, "a block of memory waits for one of a frame at most, not {}", run.waited);
        } else {
            prop_assert_eq!(run.waited, 0);
        }
    }

    /// A link without memory messages carries exactly the blocks of the standard, bit for bit.
    #[test]
    fn without_messages_the_line_is_the_standards(
        policy in policies(),
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..12),
    ) {
        let blocks = encoded(&frames, 0);
        let run = run(policy, blocks.clone(), &[]);
        prop_assert_eq!(&run.line[..blocks.len()], &Vec::from(blocks)[..]);
        prop_assert!(run.line.iter().skip(encoded(&frames, 0).len()).all(|block| *block == Block::IDLE));
    }

    /// A receiver without EDM decodes every frame as long as memory uses only the gaps.
    #[test]
    fn a_standard_receiver_reads_frames_between_messages(
        policy in policies(),
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..12),
        bytes in 0..120_usize,
    ) {
        let gap = 40;
        let blocks = encoded(&frames, gap);
        // A message directly follows each end of a frame.
        let ends = blocks.iter().enumerate().filter(|(_, block)| {
            block.block_type().is_some_and(|kind| unrack_phy::block::types::TERMINATE.contains(&kind))
        });
        let mut memory = Vec::new();
        for (end, _) in ends {
            let mut of_it = Vec::new();
            MemoryMessage { node: 1, id: 0, body: Body::Response { last: true, data: vec![9; bytes] } }.blocks(&mut of_it);
            memory.extend(of_it.into_iter().enumerate().map(|(at, block)| (end + 2 + at, block)));
        }
        let run = run(policy, blocks, &memory);
        prop_assert_eq!(run.messages.len(), frames.len());
        let mut standard = Standard::default();
        run.line.iter().for_each(|block| standard.handle(*block));
        prop_assert_eq!(standard.frames, padded(&frames));
    }
}

/// §2.4, limitation 3: 9 KB of a frame would delay memory for 720 ns at 100 Gb/s, which is 1,128 blocks. Here the
/// delay is one block.
#[test]
fn a_jumbo_frame_does_not_hold_memory_up() {
    let frame = vec![0x42; 9_014];
    for (policy, most) in [(MuxPolicy::Fair, 1), (MuxPolicy::Strict, 0)] {
        let (sent, memory) = scheduled(&[(100, 64), (300, 64), (500, 3)], &[0]);
        let run = run(policy, encoded(std::slice::from_ref(&frame), 0), &memory);
        assert_eq!(run.messages, sent);
        assert_eq!(run.standard.frames, std::slice::from_ref(&frame));
        assert_eq!(run.waited, most);
    }
}

/// If memory and frames both have as much as they can send, each gets half of the line.
#[test]
fn fair_is_half_and_half() {
    let (sent, memory) = scheduled(&[(10, 4_000)], &[0]);
    let run = run(MuxPolicy::Fair, encoded(&[vec![1; 9_014]], 0), &memory);
    assert_eq!(run.messages, sent);
    let first = run.line.iter().position(|block| block.block_type() == Some(0x2e)).unwrap();
    let last = run.line.iter().position(|block| block.block_type() == Some(0x65)).unwrap();
    assert_eq!(last - first, 2 * (memory.len() - 1));
}
