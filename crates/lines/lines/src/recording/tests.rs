//! Tests of recordings: what was written is read back; a cut file is read up to its last window; damage is an error.

use super::*;
use crate::instruction::{
    BlockEnding, CodeBlock, Instruction, MemoryUse, OperationClass, REGISTERS, Register,
};
use crate::window::{
    BlockStep, CodeFetch, LineAccess, Prefetch, RecordedWindow, ServedBy, WalkLoads, WriteBack,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn registers<const N: usize>() -> impl Strategy<Value = [Register; N]> {
    vec(0..REGISTERS as Register, N).prop_map(|registers| registers.try_into().unwrap())
}

fn instruction() -> impl Strategy<Value = Instruction> {
    let operation = prop_oneof![
        Just(OperationClass::Integer),
        Just(OperationClass::SystemCall),
        Just(OperationClass::Cross)
    ];
    let memory = prop_oneof![
        Just(MemoryUse::None),
        Just(MemoryUse::Load),
        Just(MemoryUse::Store),
        Just(MemoryUse::Modify),
        Just(MemoryUse::NontemporalStore),
        Just(MemoryUse::Prefetch)
    ];
    (registers(), registers(), registers(), operation, 1..5u8, memory).prop_map(
        |(address, sources, targets, operation, slots, memory)| Instruction {
            address,
            sources,
            targets,
            operation,
            slots,
            memory,
        },
    )
}

fn block() -> impl Strategy<Value = (CodeBlock, Option<String>)> {
    let ending =
        prop_oneof![Just(BlockEnding::Falls), Just(BlockEnding::Conditional), Just(BlockEnding::Return)];
    let block = (any::<u64>(), any::<u32>(), vec(instruction(), 1..6), ending);
    let function = prop_oneof![Just(None), "[a-zä]{1,9}".prop_map(Some)];
    (block, function).prop_map(|((pc, bytes, instructions, ending), function)| {
        (CodeBlock { pc, bytes, instructions, ending }, function)
    })
}

fn served() -> impl Strategy<Value = ServedBy> + Clone {
    prop_oneof![
        Just(ServedBy::L1),
        Just(ServedBy::L2),
        Just(ServedBy::L3),
        Just(ServedBy::Peer),
        Just(ServedBy::Memory)
    ]
}

fn walk() -> impl Strategy<Value = WalkLoads> + Clone {
    let counts = (any::<[u8; 3]>(), any::<u8>());
    let told = (any::<bool>(), counts).prop_map(|(is_second_level_hit, (caches, memory))| WalkLoads {
        is_second_level_hit,
        caches,
        memory,
    });
    prop_oneof![4 => Just(WalkLoads::default()), 1 => told]
}

/// Draws an access but for its instruction, which is what is drawn modulo those of its step.
fn access() -> impl Strategy<Value = LineAccess> + Clone {
    let line = prop_oneof![any::<u64>(), 0..100_000u64];
    (any::<u16>(), line, 1..=64u8, any::<bool>(), served(), 0..8u16, walk()).prop_map(
        |(instruction, address, bytes, is_store, served, near, walk)| {
            let bytes = bytes.min((64 - address % 64) as u8);
            LineAccess { instruction, address, bytes, is_store, served, near, walk }
        },
    )
}

/// Draws a window of a program whose blocks have these lengths.
fn window(lengths: Vec<usize>) -> impl Strategy<Value = RecordedWindow> {
    let count = lengths.len() as u32;
    let step = (0..count, any::<u16>(), any::<bool>(), vec(access(), 0..4));
    let prefetch = (any::<u32>(), any::<u64>(), served(), 0..8u16);
    let steps = prop_oneof![vec(step.clone(), 1..40), vec(step, 0..2)];
    let moved = [(); 3].map(|()| vec(prefetch.clone(), 0..5));
    (any::<u32>(), any::<u64>(), any::<u32>(), steps, moved).prop_map(
        move |(thread, start, lead, steps, [fetches, prefetches, write_backs])| {
            let mut window = RecordedWindow { thread, start, ..RecordedWindow::default() };
            let mut total = 0;
            for (block, instructions, is_mispredicted, mut accesses) in steps {
                let length = lengths[block as usize];
                let instructions = 1 + instructions % length as u16;
                total += u32::from(instructions);
                let first_access = window.accesses.len() as u32;
                window.steps.push(BlockStep { block, instructions, first_access, is_mispredicted });
                accesses.iter_mut().for_each(|access| access.instruction %= instructions);
                accesses.sort_by_key(|access| access.instruction);
                window.accesses.extend(accesses);
            }
            window.lead = lead % (total + 1);
            let count = window.steps.len() as u32;
            if count > 0 {
                window.fetches.extend(fetches.into_iter().map(|(step, line, served, near)| CodeFetch {
                    step: step % count,
                    line,
                    served,
                    near,
                }));
                window.fetches.sort_by_key(|fetch| fetch.step);
            }
            let causes = window.accesses.len() as u32;
            if causes > 0 {
                window.prefetches.extend(prefetches.into_iter().map(|(after, line, served, near)| {
                    Prefetch { after: after % causes, line, served, near }
                }));
                window.write_backs.extend(write_backs.into_iter().map(|(after, line, _, near)| WriteBack {
                    after: after % causes,
                    line,
                    near,
                }));
            }
            window.prefetches.sort_by_key(|prefetch| prefetch.after);
            window.write_backs.sort_by_key(|write_back| write_back.after);
            window
        },
    )
}

/// Draws a program and windows of it.
fn recording() -> impl Strategy<Value = (Vec<(CodeBlock, Option<String>)>, Vec<RecordedWindow>)> {
    vec(block(), 1..6).prop_flat_map(|blocks| {
        let lengths: Vec<_> = blocks.iter().map(|(block, _)| block.instructions.len()).collect();
        (Just(blocks), vec(window(lengths), 0..4))
    })
}

fn header() -> Header {
    Header {
        processor: "zen3".into(),
        placements: vec!["interleaved".into(), "tiered".into(), "none".into()],
    }
}

/// Returns the recording, and its length after the header and after each window.
fn write(blocks: &[(CodeBlock, Option<String>)], windows: &[RecordedWindow]) -> (Vec<u8>, Vec<u64>) {
    let mut writer = RecordingWriter::new(Vec::new(), &header()).unwrap();
    let mut ends = vec![writer.bytes()];
    for window in windows {
        let block = |number: u32| {
            let (block, function) = &blocks[number as usize];
            (block, function.as_deref())
        };
        writer.append(window, block).unwrap();
        ends.push(writer.bytes());
    }
    (writer.into_inner(), ends)
}

/// Reads windows until the end or an error. Returns them and whether the file is cut.
fn read(bytes: &[u8]) -> (Vec<RecordedWindow>, Result<bool, RecordingError>) {
    let mut windows = Vec::new();
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (windows, Err(error)),
    };
    loop {
        match reader.next_window() {
            Ok(Some(window)) => windows.push(window),
            Ok(None) => return (windows, Ok(reader.is_cut())),
            Err(error) => return (windows, Err(error)),
        }
    }
}

/// Returns the number in the file, by the caller's number.
fn numbers(windows: &[RecordedWindow]) -> Vec<u32> {
    let mut order = Vec::new();
    for step in windows.iter().flat_map(|window| &window.steps) {
        if !order.contains(&step.block) {
            order.push(step.block);
        }
    }
    order
}

/// Returns windows as the reader numbers their blocks.
fn renumbered(windows: &[RecordedWindow]) -> Vec<RecordedWindow> {
    let order = numbers(windows);
    let mut windows = windows.to_vec();
    for step in windows.iter_mut().flat_map(|window| &mut window.steps) {
        step.block = order.iter().position(|number| *number == step.block).unwrap() as u32;
    }
    windows
}

proptest! {
    #[test]
    fn what_was_written_is_read_back((blocks, windows) in recording()) {
        let (bytes, _) = write(&blocks, &windows);
        let mut reader = Reader::new(&bytes[..]).unwrap();
        prop_assert_eq!(reader.header(), &header());
        for window in renumbered(&windows) {
            prop_assert_eq!(reader.next_window().unwrap(), Some(window));
        }
        prop_assert_eq!(reader.next_window().unwrap(), None);
        prop_assert!(!reader.is_cut());
        let order = numbers(&windows);
        prop_assert_eq!(reader.blocks().all().len(), order.len());
        for (number, source) in (0..).zip(order) {
            let (block, function) = &blocks[source as usize];
            prop_assert_eq!(&reader.blocks().all()[number as usize], block);
            prop_assert_eq!(reader.blocks().function(number), function.as_deref());
        }
    }

    #[test]
    fn a_cut_file_is_read_up_to_its_last_whole_window((blocks, windows) in recording(), at in any::<prop::sample::Index>()) {
        let (bytes, ends) = write(&blocks, &windows);
        let cut = at.index(bytes.len() + 1);
        let (found, end) = read(&bytes[..cut]);
        let whole = ends.iter().filter(|end| **end <= cut as u64).count();
        if whole == 0 {
            prop_assert!(end.is_err());
        } else {
            prop_assert_eq!(found, &renumbered(&windows)[..whole - 1]);
            // A cut between the records of blocks and their window leaves no trace.
            prop_assert!(end.is_ok());
        }
    }

    #[test]
    fn a_flipped_bit_is_found((blocks, windows) in recording(), at in any::<prop::sample::Index>(), bit in 0..8u32) {
        let (mut bytes, _) = write(&blocks, &windows);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let (found, end) = read(&bytes);
        let expected = renumbered(&windows);
        prop_assert!(found.len() <= expected.len());
        prop_assert_eq!(&found, &expected[..found.len()]);
        // A longer length looks as if the file were cut.
        prop_assert!(!matches!(end, Ok(false)), "{:?}", end);
    }

    /// Damage with a correct checksum, as an attacker would write it.
    #[test]
    fn a_payload_of_anything_is_no_panic(
        (blocks, windows) in recording(),
        kind in 0..5u8,
        mut payload in vec(prop_oneof![any::<u8>(), 0..3u8], 0..80),
    ) {
        let (mut bytes, _) = write(&blocks, &windows);
        if kind == BLOCK {
            payload.insert(0, 0);
        }
        bytes.push(kind);
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(writer::checksum(kind, &payload).to_le_bytes());
        bytes.extend(payload);
        let (found, _) = read(&bytes);
        prop_assert_eq!(&found[..windows.len()], &renumbered(&windows)[..]);
    }

    /// Damage within a valid payload, with a correct checksum: what is accepted obeys the rules.
    #[test]
    fn a_damaged_payload_is_refused_or_valid(
        (blocks, windows) in recording(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (bytes, ends) = write(&blocks, &windows);
        let mut damaged = bytes[..ends[0] as usize].to_vec();
        let mut at = ends[0] as usize;
        while at < bytes.len() {
            let length = u32::from_le_bytes(bytes[at + 1..at + 5].try_into().unwrap()) as usize;
            let mut payload = bytes[at + 9..at + 9 + length].to_vec();
            for (index, byte) in &changes {
                let index = index.index(payload.len());
                payload[index] = *byte;
            }
            damaged.extend(&bytes[at..at + 5]);
            damaged.extend(writer::checksum(bytes[at], &payload).to_le_bytes());
            damaged.extend(payload);
            at += 9 + length;
        }
        let Ok(mut reader) = Reader::new(&damaged[..]) else { return Ok(()) };
        while let Ok(Some(window)) = reader.next_window() {
            let blocks = reader.blocks().all();
            let length = |number: u32| blocks.get(number as usize).map(|block| block.instructions.len());
            prop_assert_eq!(check::window(&window, 3, length), Ok(()));
            prop_assert!(blocks.iter().all(|block| check::block(block).is_ok()));
        }
    }

    #[test]
    fn numbers_are_read_back(number: u64) {
        let mut bytes = Vec::new();
        bytes::put(&mut bytes, number);
        bytes::put_difference(&mut bytes, number);
        let mut cursor = bytes::Cursor::new(&bytes, 0);
        prop_assert_eq!(cursor.number().unwrap(), number);
        prop_assert_eq!(cursor.difference().unwrap(), number);
        cursor.end().unwrap();
    }
}

/// Returns a loop of a load, an addition and a jump that walks an array.
fn walk_of(steps: u32) -> (CodeBlock, RecordedWindow) {
    let plain = Instruction {
        address: [0; 2],
        sources: [0; 4],
        targets: [1, 0, 0],
        operation: OperationClass::Integer,
        slots: 1,
        memory: MemoryUse::None,
    };
    let load = Instruction { memory: MemoryUse::Load, ..plain.clone() };
    let branch = Instruction { operation: OperationClass::Branch, ..plain.clone() };
    let instructions = vec![load, plain, branch];
    let block = CodeBlock { pc: 0x1000, bytes: 9, instructions, ending: BlockEnding::Conditional };
    let access = LineAccess {
        instruction: 0,
        address: 0,
        bytes: 8,
        is_store: false,
        served: ServedBy::L1,
        near: 0,
        walk: WalkLoads::default(),
    };
    let step = BlockStep { block: 7, instructions: 3, first_access: 0, is_mispredicted: false };
    let window = RecordedWindow {
        steps: (0..steps).map(|index| BlockStep { first_access: index, ..step }).collect(),
        accesses: (0..steps)
            .map(|i| LineAccess { address: 0x7f00_0000 + 8 * u64::from(i), ..access })
            .collect(),
        ..RecordedWindow::default()
    };
    (block, window)
}

#[test]
fn a_walk_through_an_array_takes_two_bytes_a_round() {
    let (block, window) = walk_of(1000);
    let mut writer = RecordingWriter::new(Vec::new(), &header()).unwrap();
    let start = writer.bytes();
    writer.append(&window, |_| (&block, Some("walk"))).unwrap();
    let bytes = writer.bytes() - start;
    assert!((2000..2150).contains(&bytes), "{bytes}");
}

#[test]
fn a_window_that_contradicts_itself_is_refused_and_leaves_the_file_as_it_was() {
    let (block, window) = walk_of(4);
    let damages: [fn(&mut RecordedWindow); 11] = [
        |window| window.accesses[3].bytes = 65,
        |window| window.accesses[2].address += 44,
        |window| window.accesses[1].near = 8,
        |window| window.accesses[0].instruction = 3,
        |window| window.steps[2].first_access = 0,
        |window| window.steps[1].instructions = 4,
        |window| window.lead = 13,
        |window| window.steps.clear(),
        |window| window.write_backs.push(WriteBack { after: 4, line: 0, near: 0 }),
        |window| window.fetches.push(CodeFetch { step: 4, line: 0, served: ServedBy::L2, near: 0 }),
        |window| window.fetches.push(CodeFetch { step: 0, line: 0, served: ServedBy::Memory, near: 8 }),
    ];
    for (number, damage) in damages.iter().enumerate() {
        let mut writer = RecordingWriter::new(Vec::new(), &header()).unwrap();
        let mut damaged = window.clone();
        damage(&mut damaged);
        let before = writer.bytes();
        let refused = writer.append(&damaged, |_| (&block, None));
        assert!(matches!(refused, Err(RecordingError::Refused(_))), "{number}: {refused:?}");
        assert_eq!(writer.bytes(), before);
        writer.append(&window, |_| (&block, None)).unwrap();
        let (found, end) = read(&writer.into_inner());
        assert_eq!((found.len(), end.unwrap()), (1, false));
    }
}

#[test]
fn other_files_and_versions_are_told_apart() {
    let message = |bytes: &[u8]| Reader::new(bytes).err().unwrap().to_string();
    for foreign in [&b""[..], b"unrack", b"PAR1 and more of it"] {
        assert!(message(foreign).starts_with("not a recording"), "{}", message(foreign));
    }
    let (mut bytes, _) = write(&[], &[]);
    assert!(message(&bytes[..10]).contains("byte 8: the header is absent"), "{}", message(&bytes[..10]));
    bytes[8] = 3;
    assert!(message(&bytes).contains("recording of version 3"), "{}", message(&bytes));
}

#[test]
fn long_names_of_functions_are_cut_at_a_character() {
    let (block, window) = walk_of(1);
    let name = format!("x{}", "ä".repeat(LONGEST_NAME));
    let mut writer = RecordingWriter::new(Vec::new(), &header()).unwrap();
    writer.append(&window, |_| (&block, Some(&name))).unwrap();
    let bytes = writer.into_inner();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    reader.next_window().unwrap();
    assert_eq!(reader.blocks().function(0), Some(&name[..LONGEST_NAME - 1]));
}
