//! Comparison of both sides of a link's end (`rtl/cosim/line_bench.sv`): encoder, multiplexer and scrambler; block
//! synchronization, descrambler, reassembly and decoder. Every register is compared in every cycle.

use super::{cycles, program, run};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use std::collections::VecDeque;
use unrack_phy::Block;
use unrack_phy::block::types;
use unrack_phy::edm::demux::{MemoryBlock, WrongBlocks};
use unrack_phy::edm::{Body, Demux, MemoryMessage, Mux, MuxPolicy, layout};
use unrack_phy::mac::Framer;
use unrack_phy::pcs::{BlockDecoder, BlockSync, Column, Encoder, Scrambler};

const OUT: usize = 56;

/// Traffic of a run.
#[derive(Debug, Clone, Copy)]
struct Traffic {
    policy: MuxPolicy,
    /// Bytes of the longest frame. The next field is the maximum number of idle columns after a frame.
    frame: u32,
    idle: u32,
    /// Average number of columns per nonsensical column; 0 for no nonsensical columns.
    nonsense: u32,
    /// Bytes of the longest message. The next field is the maximum number of cycles between two of its blocks, and
    /// between messages.
    message: u32,
    gap: u32,
    pause: u32,
    received: Received,
}

/// Input of the receive side.
#[derive(Debug, Clone, Copy)]
enum Received {
    /// The bits of the transmit side, delayed by `late` bits. In one of `wrong` cycles a bit is wrong; 0 means never.
    Sent { late: u32, wrong: u32 },
    /// Blocks of any type. The longest run of data blocks is `data`.
    Anything { data: u32 },
}

struct Source {
    random: Pcg64Mcg,
    traffic: Traffic,
    framer: Framer,
    columns: VecDeque<Column>,
    memory: VecDeque<(u64, Block)>,
    at: u64,
    data_left: u32,
}

impl Source {
    fn new(seed: u64, traffic: Traffic) -> Source {
        let random = Pcg64Mcg::seed_from_u64(seed);
        let (columns, memory) = (VecDeque::new(), VecDeque::new());
        Source { random, traffic, framer: Framer::default(), columns, memory, at: 0, data_left: 0 }
    }

    fn below(&mut self, most: u32) -> u32 {
        self.random.next_u32() % most.max(1)
    }

    fn column(&mut self) -> Column {
        if self.columns.is_empty() {
            let bytes = self.below(self.traffic.frame);
            let frame: Vec<u8> = (0..bytes).map(|_| self.random.next_u32() as u8).collect();
            let mut columns = Vec::new();
            self.framer.frame(&frame, &mut columns);
            let idle = self.below(self.traffic.idle) as usize;
            self.framer.idle(idle, &mut columns);
            if self.traffic.nonsense > 0 {
                columns.iter_mut().for_each(|column| *column = self.maybe_nonsense(*column));
            }
            self.columns = columns.into();
            self.columns.push_back(Column::IDLE);
        }
        self.columns[0]
    }

    fn maybe_nonsense(&mut self, column: Column) -> Column {
        if self.below(self.traffic.nonsense) > 0 {
            return column;
        }
        let characters = [0x07, 0x06, 0x1c, 0x3c, 0x7c, 0xbc, 0xdc, 0xf7, 0xfb, 0xfd, 0xfe, 0x9c, 0x5c, 0x42];
        let masks = [0x00, 0x01, 0x11, 0x1f, 0xf1, 0xff, 0xfe, 0xfc, 0xf8, 0xf0, 0xe0, 0xc0, 0x80, 0x35];
        let usual = [0x07, characters[self.below(14) as usize]];
        let lanes = [0; 8].map(|_: u8| usual[usize::from(self.below(5) == 0)]);
        let mut column = Column { data: u64::from_le_bytes(lanes), control: masks[self.below(14) as usize] };
        let first = column.control.trailing_zeros();
        if self.below(2) == 0 && first < 8 {
            column.data &= !(0xff << (8 * first));
            column.data |= u64::from(characters[self.below(14) as usize]) << (8 * first);
        }
        column
    }

    /// Returns the memory block that waits in this cycle.
    fn memory(&mut self, now: u64) -> Option<Block> {
        if self.memory.is_empty() {
            self.at = self.at.max(now) + u64::from(self.below(self.traffic.pause));
            let bytes = self.below(self.traffic.message);
            let data = (0..bytes).map(|_| self.random.next_u32() as u8).collect();
            let mut blocks = Vec::new();
            MemoryMessage { node: 5, id: bytes as u8, body: Body::Response { last: true, data } }
                .blocks(&mut blocks);
            for block in blocks {
                self.memory.push_back((self.at, block));
                self.at += 1 + u64::from(self.below(self.traffic.gap));
            }
        }
        self.memory.front().filter(|(at, _)| *at <= now).map(|(_, block)| *block)
    }

    /// Returns a block of any type.
    fn anything(&mut self, data: u32) -> Block {
        let payload = self.random.next_u64();
        if self.data_left > 0 {
            self.data_left -= 1;
            return Block::data(payload);
        }
        let of = |types: &[u8], at: u32| types[at as usize % types.len()];
        match self.below(12) {
            0 => Block { header: self.below(4) as u8, payload },
            1..=3 => Block::IDLE,
            4 => Block::ERROR,
            5..=7 => Block::control(payload & !0xff | u64::from(of(&types::ALL, payload as u32))),
            8 | 9 => Block::control(payload & !0xff | u64::from(of(&layout::TYPES, payload as u32))),
            // A run of data like that of a frame, which may be too long.
            10 => {
                self.data_left = self.below(data);
                Block::control(payload & !0xff | u64::from(types::START_0))
            }
            _ => {
                self.data_left = self.below(data);
                Block::data(payload)
            }
        }
    }
}

/// The transmit side, with its output of the cycle.
struct Sender {
    encoder: Encoder,
    encoded: Block,
    mux: Mux,
    block: Block,
    scrambler: Scrambler,
    line: Block,
}

impl Sender {
    fn new(policy: MuxPolicy) -> Sender {
        let (encoder, scrambler) = (Encoder::default(), Scrambler::default());
        let line = Block::control(u64::MAX);
        Sender { encoder, encoded: Block::IDLE, mux: Mux::new(policy), block: Block::IDLE, scrambler, line }
    }

    /// Processes one cycle. Returns whether the column was taken, and whether memory's block was.
    fn tick(&mut self, column: Column, memory: Option<Block>) -> (bool, bool) {
        let payload = self.scrambler.scramble(self.block.payload);
        self.line = Block { payload, ..self.block };
        let takes = self.mux.takes_frame_block();
        let sent = self.mux.tick(takes.then_some(self.encoded), memory);
        self.block = sent.block;
        if takes {
            self.encoded = self.encoder.encode(column);
        }
        (takes, sent.took_memory)
    }
}

/// Registers of the receive side.
struct Receiver {
    policy: MuxPolicy,
    sync: BlockSync,
    runs: bool,
    block: Option<Block>,
    demux: Demux,
    memory: Option<MemoryBlock>,
    wrong: u8,
    to_decoder: Option<Block>,
    decoder: BlockDecoder,
    column: Column,
}

impl Receiver {
    fn new(policy: MuxPolicy) -> Receiver {
        Receiver {
            policy,
            sync: BlockSync::new(),
            runs: false,
            block: None,
            demux: Demux::new(policy),
            memory: None,
            wrong: 0,
            to_decoder: None,
            decoder: BlockDecoder::default(),
            column: Column::LOCAL_FAULT,
        }
    }

    fn tick(&mut self, line: Block) {
        if !self.runs {
            self.decoder = BlockDecoder::default();
            self.column = Column::LOCAL_FAULT;
            self.demux = Demux::new(self.policy);
        } else if let Some(block) = self.to_decoder {
            self.column = self.decoder.decode(block);
        }
        (self.memory, self.wrong, self.to_decoder) = (None, 0, None);
        if self.runs
            && let Some(block) = self.block
        {
            let before = self.demux.wrong();
            let received = self.demux.tick(block);
            (self.memory, self.to_decoder) = (received.memory, Some(received.to_decoder));
            self.wrong = grown(before, self.demux.wrong());
        }
        self.runs = self.sync.is_locked();
        self.block = None;
        let bits = u128::from(line.payload) << 2 | u128::from(line.header);
        for half in [bits, bits >> 33] {
            self.sync.handle_bits(half as u64 & ((1 << 33) - 1), 33, |block| self.block = Some(block));
        }
    }
}

/// Returns one bit for each count, which is set if the count has grown.
fn grown(before: WrongBlocks, after: WrongBlocks) -> u8 {
    let counts = |wrong: WrongBlocks| [wrong.headers, wrong.types, wrong.strays, wrong.frames];
    let pairs = counts(before).into_iter().zip(counts(after)).enumerate();
    pairs.map(|(at, (before, after))| u8::from(after > before) << at).sum()
}

fn bytes_of(block: Block) -> [u8; 9] {
    let mut bytes = [block.header; 9];
    bytes[..8].copy_from_slice(&block.payload.to_le_bytes());
    bytes
}

/// Record of a cycle: the flags, and the blocks that are valid.
struct Said {
    flags: u16,
    blocks: [Option<[u8; 9]>; 6],
}

/// Blocks of the hardware's record, in the order in which they follow the flags.
const BLOCKS: [&str; 6] = ["block", "line", "descrambled", "memory", "to the decoder", "column"];

/// Returns the record of a cycle.
fn said(sender: &Sender, receiver: &Receiver) -> Said {
    let memory = match receiver.memory {
        Some(MemoryBlock::Block(block)) => Some(bytes_of(block)),
        _ => None,
    };
    let bits = [
        receiver.sync.is_locked(),
        receiver.block.is_some(),
        memory.is_some(),
        receiver.memory == Some(MemoryBlock::Broken),
        receiver.to_decoder.is_some(),
    ];
    let flags = bits.iter().zip(4..).map(|(bit, at)| u16::from(*bit) << at).sum::<u16>();
    let Column { data: payload, control: header } = receiver.column;
    let blocks = [
        Some(bytes_of(sender.block)),
        Some(bytes_of(sender.line)),
        receiver.block.map(bytes_of),
        memory,
        receiver.to_decoder.map(bytes_of),
        Some(bytes_of(Block { header, payload })),
    ];
    Said { flags: flags | u16::from(receiver.wrong) << 12, blocks }
}

#[test]
fn a_links_end_is_the_same_in_every_cycle() {
    let Some(program) = program("line") else { return };
    let sent = |late, wrong| Received::Sent { late, wrong };
    let quiet = Traffic {
        policy: MuxPolicy::Fair,
        frame: 200,
        idle: 4,
        nonsense: 0,
        message: 100,
        gap: 3,
        pause: 20,
        received: sent(0, 0),
    };
    let strict = Traffic { policy: MuxPolicy::Strict, ..quiet };
    let runs = [
        quiet,
        strict,
        Traffic { frame: 9_000, message: 2_000, gap: 1, pause: 5, received: sent(1, 0), ..quiet },
        Traffic { frame: 9_000, message: 2_000, gap: 2, pause: 5, received: sent(65, 0), ..strict },
        Traffic { nonsense: 10, received: sent(31, 0), ..quiet },
        Traffic { nonsense: 40, pause: 200, received: sent(2, 3_000), ..strict },
        Traffic { received: sent(17, 700), ..quiet },
        Traffic { received: Received::Anything { data: 20 }, ..quiet },
        Traffic { received: Received::Anything { data: 2_500 }, ..strict },
    ];
    for (seed, traffic) in runs.into_iter().enumerate() {
        compare(&program, seed as u64, traffic);
    }
    println!("line: {} x {} cycles, all the same", runs.len(), cycles());
}

fn compare(program: &str, seed: u64, traffic: Traffic) {
    let mut source = Source::new(seed, traffic);
    let (mut sender, mut receiver) = (Sender::new(traffic.policy), Receiver::new(traffic.policy));
    let (mut scrambler, mut late) = (Scrambler::default(), 0_u128);
    let (mut input, mut all) = (Vec::new(), Vec::new());
    let strict = u8::from(traffic.policy == MuxPolicy::Strict) << 1;
    for cycle in 0..cycles() {
        let (column, memory) = (source.column(), source.memory(cycle));
        let line = match traffic.received {
            Received::Sent { late: by, wrong } => {
                let line = sender.line;
                late |= (u128::from(line.payload) << 2 | u128::from(line.header)) << by;
                let mut bits = late;
                late >>= 66;
                if wrong > 0 && source.below(wrong) == 0 {
                    bits ^= 1 << source.below(66);
                }
                Block { header: bits as u8 & 3, payload: (bits >> 2) as u64 }
            }
            Received::Anything { .. } if cycle < 70 => {
                Block { payload: scrambler.scramble(Block::IDLE.payload), ..Block::IDLE }
            }
            Received::Anything { data } => {
                let block = source.anything(data);
                Block { payload: scrambler.scramble(block.payload), ..block }
            }
        };
        input.extend(bytes_of(Block { header: column.control, payload: column.data }));
        input.push(strict | u8::from(memory.is_some()));
        input.extend(bytes_of(memory.unwrap_or(Block::IDLE)));
        input.extend(bytes_of(line));
        let mut cycle_said = said(&sender, &receiver);
        let took = sender.tick(column, memory);
        receiver.tick(line);
        cycle_said.flags |= u16::from(took.0) | u16::from(took.1) << 1;
        all.push(cycle_said);
        if took.0 {
            source.columns.pop_front();
        }
        if took.1 {
            source.memory.pop_front();
        }
    }
    let output = run(program, input);
    assert_eq!(output.len(), OUT * all.len());
    for (cycle, (got, expected)) in output.as_chunks::<OUT>().0.iter().zip(&all).enumerate() {
        let flags = u16::from_le_bytes([got[0], got[1]]);
        assert_eq!(flags, expected.flags, "flags in cycle {cycle} of run {seed}, {traffic:?}");
        for ((got, expected), name) in got[2..].as_chunks::<9>().0.iter().zip(&expected.blocks).zip(BLOCKS) {
            let is_same = expected.is_none_or(|expected| *got == expected);
            assert!(
                is_same,
                "{name} in cycle {cycle} of run {seed}, {traffic:?}: {got:x?}, not {expected:x?}"
            );
        }
    }
}
