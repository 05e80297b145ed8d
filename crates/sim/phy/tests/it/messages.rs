//! Memory messages as blocks, and the effects of damaged blocks on them.

use proptest::prelude::*;
use unrack_phy::Block;
use unrack_phy::edm::demux::MemoryBlock;
use unrack_phy::edm::{
    Assembler, Body, ControlFields, Demux, Event, Kind, Malformed, MemoryMessage, MuxPolicy, RmwOperation,
    layout,
};
use unrack_phy::pcs::{Descrambler, Scrambler};

fn blocks_of(message: &MemoryMessage) -> Vec<Block> {
    let mut blocks = Vec::new();
    message.blocks(&mut blocks);
    blocks
}

/// Returns whether any block was counted as wrong.
fn is_seen(assembler: &Assembler, demux: &Demux) -> bool {
    demux.wrong().any() || Malformed::ALL.iter().any(|kind| assembler.malformed(*kind) > 0)
}

fn received(blocks: &[Block]) -> (Vec<Event>, Assembler, Demux) {
    let (mut demux, mut assembler) = (Demux::new(MuxPolicy::Fair), Assembler::default());
    let mut events = Vec::new();
    for block in blocks {
        match demux.tick(*block).memory {
            Some(MemoryBlock::Block(block)) => events.extend(assembler.handle(block).and_then(Result::ok)),
            Some(MemoryBlock::Broken) => drop(assembler.broken()),
            None => {}
        }
    }
    (events, assembler, demux)
}

fn operations() -> impl Strategy<Value = RmwOperation> {
    prop_oneof![
        any::<(u64, u64)>().prop_map(|(expected, new)| RmwOperation::CompareSwap { expected, new }),
        any::<u64>().prop_map(|addend| RmwOperation::FetchAdd { addend }),
        any::<u64>().prop_map(|new| RmwOperation::Swap { new }),
    ]
}

fn messages() -> impl Strategy<Value = MemoryMessage> {
    let addresses = || prop_oneof![any::<u64>(), (0..1_u64 << 20).prop_map(|line| line * 64)];
    let data = |least| proptest::collection::vec(any::<u8>(), least..300);
    let bodies = prop_oneof![
        (addresses(), 1..u16::MAX).prop_map(|(address, bytes)| Body::Read { address, bytes }),
        (addresses(), 1..300_u16).prop_map(|(address, bytes)| Body::Read { address, bytes }),
        (addresses(), any::<bool>(), data(1)).prop_map(|(address, last, data)| Body::Write {
            address,
            last,
            data
        }),
        (addresses(), operations()).prop_map(|(address, operation)| Body::Modify { address, operation }),
        (any::<bool>(), data(0)).prop_map(|(last, data)| Body::Response { last, data }),
        (any::<bool>(), proptest::collection::vec(any::<u8>(), 0..4))
            .prop_map(|(last, data)| Body::Response { last, data }),
    ];
    (0..layout::NODES, any::<u8>(), bodies).prop_map(|(node, id, body)| MemoryMessage { node, id, body })
}

/// Returns the number of blocks that a message takes by the layout: one for each started word of its body, plus one.
fn expected_blocks(message: &MemoryMessage) -> usize {
    let of = |bytes: usize| bytes.saturating_sub(8).div_ceil(8) + 2;
    match &message.body {
        Body::Read { address, bytes } if address % 64 == 0 && *address < 1 << 26 && *bytes <= 256 => 1,
        Body::Read { .. } => 2,
        Body::Write { data, .. } => of(8 + data.len()),
        Body::Modify { operation: RmwOperation::CompareSwap { .. }, .. } => 4,
        Body::Modify { .. } => 3,
        Body::Response { data, .. } if data.len() <= 3 => 1,
        Body::Response { data, .. } => of(data.len()),
    }
}

#[test]
fn what_the_paper_counts() {
    let count = |body| blocks_of(&MemoryMessage { node: 1, id: 2, body }).len();
    assert_eq!(count(Body::Read { address: 0x40, bytes: 64 }), 1, "an RREQ that fits is one block");
    assert_eq!(count(Body::Read { address: u64::MAX, bytes: 64 }), 2);
    assert_eq!(count(Body::Response { last: true, data: vec![0; 64] }), 9);
    assert_eq!(count(Body::Write { address: 0, last: true, data: vec![0; 64] }), 10);
    assert_eq!(count(Body::Response { last: true, data: vec![] }), 1, "NULL");
}

/// A block of each kind, worked out by hand from the table of `layout`, with checks computed by a bit-serial CRC.
#[test]
fn the_layout_bit_by_bit() {
    let crc = |blocks: &[u64]| {
        let bits = blocks.iter().flat_map(|word| (0..64).map(move |bit| word >> bit & 1 == 1));
        let used = blocks.len() * 64 - 8;
        bits.take(used).fold(0xff_u8, |left, bit| {
            let out = (left & 1 == 1) ^ bit;
            left >> 1 ^ if out { 0xe0 } else { 0 }
        })
    };
    let with_check = |word: u64, before: &[u64]| {
        let all: Vec<u64> = before.iter().copied().chain([word]).collect();
        word | u64::from(crc(&all)) << 56
    };
    let control = ControlFields { kind: Kind::Response, node: 0x155, id: 0xc3, size: 0xbeef };
    for kind in [layout::N, layout::G] {
        let word = u64::from(kind) | 3 << 8 | 0x155 << 11 | 0xc3 << 20 | 0xbeef << 28;
        assert_eq!(control.block(kind), Block::control(with_check(word, &[])));
    }
    let read = MemoryMessage { node: 3, id: 7, body: Body::Read { address: 0x1040, bytes: 200 } };
    let word = 0x84 | 1 << 10 | 3 << 11 | 7 << 20 | 199 << 28 | 0x41 << 36;
    assert_eq!(blocks_of(&read), [Block::control(with_check(word, &[]))]);
    let null = MemoryMessage { node: 3, id: 7, body: Body::Response { last: true, data: vec![0xaa, 0xbb] } };
    let word = 0x84 | 3 << 8 | 1 << 10 | 3 << 11 | 7 << 20 | 2 << 28 | 0xbbaa << 32;
    assert_eq!(blocks_of(&null), [Block::control(with_check(word, &[]))]);
    let address = 0x0807_0605_0403_0201;
    let data = vec![0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19];
    let write = MemoryMessage { node: 500, id: 255, body: Body::Write { address, last: false, data } };
    let start = 0x2e | 1 << 8 | 500 << 11 | 255 << 20 | 9 << 28 | 0x0201 << 48;
    let middle = [0x1211_0807_0605_0403, 0x0019_1817_1615_1413];
    let end = with_check(0x65, &[start, middle[0], middle[1]]);
    let expected =
        [Block::control(start), Block::data(middle[0]), Block::data(middle[1]), Block::control(end)];
    assert_eq!(blocks_of(&write), expected);
}

/// Every bit of a line is flipped, one at a time. Each error is detected, and only messages that were sent arrive.
#[test]
fn every_single_wrong_bit_of_the_line_that_memory_holds_is_seen() {
    let message = |id, body| MemoryMessage { node: 9, id, body };
    let sent = [
        message(0, Body::Read { address: 0x40, bytes: 64 }),
        message(1, Body::Write { address: 0x1234, last: true, data: (0..64).collect() }),
        message(2, Body::Response { last: false, data: (0..29).collect() }),
        message(3, Body::Modify { address: 8, operation: RmwOperation::CompareSwap { expected: 1, new: 2 } }),
        message(4, Body::Response { last: true, data: vec![1] }),
    ];
    let mut plain = vec![Block::IDLE; 2];
    for (at, message) in sent.iter().enumerate() {
        message.blocks(&mut plain);
        plain.push(ControlFields { kind: Kind::Write, node: 9, id: 9, size: 64 }.block(layout::G));
        // Some messages follow directly, so that later images of an error fall into the next message.
        plain.extend(std::iter::repeat_n(Block::IDLE, at % 2));
    }
    plain.extend([Block::IDLE; 2]);
    let mut scrambler = Scrambler::default();
    let line: Vec<Block> =
        plain.iter().map(|block| Block { payload: scrambler.scramble(block.payload), ..*block }).collect();
    let heard = |line: &[Block]| {
        let mut descrambler = Descrambler::default();
        let blocks: Vec<Block> = line
            .iter()
            .map(|block| Block { payload: descrambler.descramble(block.payload), ..*block })
            .collect();
        (received(&blocks), blocks)
    };
    let ((all, ..), _) = heard(&line);
    assert_eq!(all.len(), 2 * sent.len());
    for at in 0..line.len() {
        for bit in 0..66 {
            let mut line = line.clone();
            match bit {
                0..2 => line[at].header ^= 1 << bit,
                bit => line[at].payload ^= 1 << (bit - 2),
            }
            let ((events, assembler, demux), blocks) = heard(&line);
            let hit: Vec<usize> = (0..plain.len()).filter(|at| blocks[*at] != plain[*at]).collect();
            assert!(hit.len() <= 2);
            let in_memory = hit.iter().any(|at| plain[*at] != Block::IDLE);
            let seen = is_seen(&assembler, &demux);
            assert!(seen || !in_memory, "block {at}, bit {bit}");
            let mut rest = all.iter();
            assert!(
                events.iter().all(|event| rest.any(|sent| sent == event)),
                "block {at}, bit {bit}: {events:?}"
            );
            assert!(events.len() + 3 >= all.len(), "block {at}, bit {bit}: its neighbours arrive");
        }
    }
}

/// Damage to a stream of blocks.
#[derive(Debug, Clone)]
enum Damage {
    Drop,
    Repeat,
    Replace(Block),
    Insert(Block),
}

fn any_block() -> impl Strategy<Value = Block> {
    let known: Vec<u8> = layout::TYPES.into_iter().chain(unrack_phy::block::types::ALL).collect();
    let of_type = (prop::sample::select(known), any::<u64>())
        .prop_map(|(kind, rest)| Block::control(rest & !0xff | u64::from(kind)));
    prop_oneof![
        of_type,
        any::<u64>().prop_map(Block::data),
        (0..4_u8, any::<u64>()).prop_map(|(header, payload)| Block { header, payload }),
    ]
}

proptest! {
    #[test]
    fn messages_come_back(messages in proptest::collection::vec(messages(), 1..20)) {
        let mut blocks = Vec::new();
        for message in &messages {
            let before = blocks.len();
            message.blocks(&mut blocks);
            prop_assert_eq!(blocks.len() - before, expected_blocks(message));
        }
        let (events, assembler, demux) = received(&blocks);
        prop_assert!(!is_seen(&assembler, &demux));
        prop_assert_eq!(events, messages.into_iter().map(Event::Message).collect::<Vec<_>>());
    }

    /// Handling many blocks at a time, in pieces and with returned buffers, gives the same result as one block at a
    /// time.
    #[test]
    fn many_blocks_are_taken_as_one_after_the_other(
        messages in proptest::collection::vec(messages(), 0..10),
        nonsense in proptest::collection::vec((any::<prop::sample::Index>(), any_block()), 0..4),
        length in 1..40_usize,
    ) {
        let mut blocks = Vec::new();
        messages.iter().for_each(|message| message.blocks(&mut blocks));
        for (at, block) in nonsense {
            blocks.insert(at.index(blocks.len() + 1), block);
        }
        let (mut one, mut many) = (Assembler::default(), Assembler::default());
        let expected: Vec<_> = blocks.iter().filter_map(|block| one.handle(*block)).collect();
        let mut told = Vec::new();
        for piece in blocks.chunks(length) {
            many.handle_all(piece, |event| {
                told.push(event.clone());
                match event {
                    Ok(Event::Message(message)) => message.body.into_data(),
                    _ => Vec::new(),
                }
            });
        }
        prop_assert_eq!(told, expected);
        for kind in Malformed::ALL {
            prop_assert_eq!(one.malformed(kind), many.malformed(kind));
        }
    }

    /// Whatever becomes of one block, all messages except the two next to it arrive, and no message that was not sent.
    #[test]
    fn damage_spoils_no_neighbour(
        sent in proptest::collection::vec(messages(), 3..8),
        at in any::<prop::sample::Index>(),
        damage in prop_oneof![
            Just(Damage::Drop), Just(Damage::Repeat),
            any_block().prop_map(Damage::Replace), any_block().prop_map(Damage::Insert),
        ],
    ) {
        let mut blocks = Vec::new();
        sent.iter().for_each(|message| message.blocks(&mut blocks));
        let at = at.index(blocks.len());
        let mut owner = 0;
        let mut end = 0;
        for (index, message) in sent.iter().enumerate() {
            end += expected_blocks(message);
            if at < end {
                owner = index;
                break;
            }
        }
        match damage {
            Damage::Drop => drop(blocks.remove(at)),
            Damage::Repeat => blocks.insert(at, blocks[at]),
            Damage::Replace(block) => blocks[at] = block,
            Damage::Insert(block) => blocks.insert(at, block),
        }
        // If the block becomes the start of a frame, turns begin on a line that memory had alone. This is damage to
        // the link, not to a single block.
        let starts_frame = blocks.iter().any(|block| {
            matches!(block.block_type(), Some(0x78 | 0x33 | 0x66))
        });
        prop_assume!(!starts_frame);
        let (events, ..) = received(&blocks);
        let got: Vec<&MemoryMessage> = events.iter().filter_map(|event| match event {
            Event::Message(message) => Some(message),
            _ => None,
        }).collect();
        for (index, message) in sent.iter().enumerate() {
            let is_near = index.abs_diff(owner) <= 1;
            prop_assert!(is_near || got.contains(&message), "message {} of damage in {}", index, owner);
        }
    }

    #[test]
    fn nonsense_is_counted_and_harms_nothing_later(
        blocks in proptest::collection::vec(any_block(), 0..400), message in messages(),
    ) {
        let mut blocks = blocks;
        // These blocks end a frame and a message, whichever was open.
        blocks.extend([Block::control(0x87), Block::control(u64::from(layout::MT)), Block::IDLE]);
        message.blocks(&mut blocks);
        let (events, ..) = received(&blocks);
        prop_assert_eq!(events.last(), Some(&Event::Message(message)));
    }
}
