//! Frames and random bits that pass through a complete standard PCS.

use proptest::prelude::*;
use unrack_phy::Block;
use unrack_phy::mac::{Deframer, FrameError, Framer};
use unrack_phy::pcs::{BlockDecoder, BlockSync, Column, Encoder, Line, Scrambler, code};

/// Number of idle blocks after which every receiver is locked. Each of 66 offsets may take a window to be found wrong.
const TO_LOCK: usize = 66 * 65;

fn sent(frames: &[Vec<u8>], idle: usize) -> Vec<Column> {
    let (mut framer, mut columns) = (Framer::default(), Vec::new());
    framer.idle(idle, &mut columns);
    frames.iter().for_each(|frame| framer.frame(frame, &mut columns));
    framer.idle(3, &mut columns);
    columns
}

fn on_the_line(columns: &[Column]) -> Vec<u8> {
    let (mut encoder, mut scrambler, mut line) = (Encoder::default(), Scrambler::default(), Line::default());
    let mut bytes = Vec::new();
    for column in columns {
        let block = encoder.encode(*column);
        line.send(Block { payload: scrambler.scramble(block.payload), ..block }, &mut bytes);
    }
    line.finish(&mut bytes);
    bytes
}

/// A receiver's chain, from bits to frames.
#[derive(Default)]
struct Receiver {
    sync: BlockSync,
    decoder: BlockDecoder,
    deframer: Deframer,
    frames: Vec<Result<Vec<u8>, FrameError>>,
}

impl Receiver {
    fn handle(&mut self, bytes: &[u8]) {
        let Receiver { sync, decoder, deframer, frames } = self;
        for byte in bytes {
            sync.handle_byte(*byte, |block| {
                let frame = deframer.handle(decoder.decode(block));
                frames.extend(frame.map(|frame| frame.map(<[u8]>::to_vec)));
            });
        }
    }
}

fn padded(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame.resize(frame.len().max(60), 0);
    frame
}

fn frames(most: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..most), 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn frames_arrive_whole_wherever_a_receiver_begins_to_listen(
        frames in frames(400), skipped in 0..200_usize, shift in 0..8_u32,
    ) {
        let line = on_the_line(&sent(&frames, TO_LOCK));
        let shifted: Vec<u8> = line.windows(2).map(|two| (u16::from_le_bytes([two[0], two[1]]) >> shift) as u8).collect();
        let mut receiver = Receiver::default();
        receiver.handle(&shifted[skipped..]);
        receiver.handle(&[0; 9]);
        prop_assert!(receiver.sync.is_locked());
        let expected: Vec<_> = frames.iter().map(|frame| Ok(padded(frame))).collect();
        prop_assert_eq!(receiver.frames, expected);
    }

    #[test]
    fn gaps_are_twelve_on_average_and_nine_at_least(lengths in proptest::collection::vec(60..1515_usize, 2..200)) {
        let frames: Vec<Vec<u8>> = lengths.iter().map(|length| vec![0x5a; *length]).collect();
        let lanes: Vec<(u8, bool)> = sent(&frames, 1)
            .iter()
            .flat_map(|column| (0..8).map(|lane| (column.lane(lane), column.is_control(lane))))
            .collect();
        let positions = |character| {
            lanes.iter().enumerate().filter(move |(_, lane)| **lane == (character, true)).map(|(at, _)| at)
        };
        let gaps: Vec<usize> = positions(0xfd).zip(positions(0xfb).skip(1)).map(|(end, start)| start - end).collect();
        prop_assert_eq!(gaps.len(), frames.len() - 1);
        prop_assert!(gaps.iter().all(|gap| (9..=15).contains(gap)), "{:?}", gaps);
        let (sum, twelves) = (gaps.iter().sum::<usize>(), 12 * gaps.len());
        prop_assert!(sum <= twelves && twelves - sum <= 3, "{} for {}", sum, twelves);
    }

    /// Every column that is decoded from a block is encoded as the same block, except for unused bits.
    #[test]
    fn blocks_and_columns_are_each_others(header in 0..4_u8, kind in prop::sample::select(&unrack_phy::block::types::ALL[..]), rest in any::<u64>()) {
        for rest in [rest, rest & 0xffff_ff00_0000_0000, rest & 0xffff_ff00, 0] {
            let block = Block { header, payload: rest & !0xff | u64::from(kind) };
            let (class, column) = code::decode(block);
            let (encoded_class, encoded) = code::encode(column);
            prop_assert_eq!(class, encoded_class);
            prop_assert_eq!(code::decode(encoded), (class, column));
            if class != code::BlockClass::Error {
                prop_assert_eq!(encoded.header, header);
            }
        }
    }

    /// If one bit is wrong, no frame appears that was not sent, and only frames near the bit are lost.
    #[test]
    fn one_wrong_bit_makes_no_false_frame(frames in frames(200), at in any::<prop::sample::Index>()) {
        let mut line = on_the_line(&sent(&frames, TO_LOCK));
        let first = TO_LOCK * 66 / 8;
        let bit = at.index((line.len() - first) * 8);
        line[first + bit / 8] ^= 1 << (bit % 8);
        let mut receiver = Receiver::default();
        receiver.handle(&line);
        receiver.handle(&[0; 9]);
        let good: Vec<_> = receiver.frames.into_iter().flatten().collect();
        prop_assert!(good.len() + 2 >= frames.len());
        let mut rest = frames.iter().map(|frame| padded(frame));
        for frame in good {
            prop_assert!(rest.any(|sent| sent == frame));
        }
    }

    #[test]
    fn nonsense_is_received_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..4_000), lock in any::<bool>()) {
        let mut receiver = Receiver::default();
        if lock {
            receiver.handle(&on_the_line(&sent(&[], TO_LOCK)));
        }
        receiver.handle(&bytes);
        receiver.handle(&on_the_line(&sent(&[vec![7; 100]], 2 * TO_LOCK)));
        receiver.handle(&[0; 9]);
        prop_assert_eq!(receiver.frames.pop(), Some(Ok(vec![7; 100])));
    }
}

#[test]
fn a_lock_needs_64_good_headers_and_ends_with_the_16th_bad_one() {
    let mut sync = BlockSync::new();
    let mut line = Vec::new();
    let mut bits = Line::default();
    let mut told = 0;
    let mut send = |header, sync: &mut BlockSync| {
        line.clear();
        bits.send(Block { header, payload: 0x55 }, &mut line);
        line.iter().for_each(|byte| sync.handle_byte(*byte, |_| told += 1));
    };
    (0..63).for_each(|_| send(1, &mut sync));
    assert!(!sync.is_locked());
    (0..2).for_each(|_| send(2, &mut sync)); // the last bits of a block come with the next byte
    assert!(sync.is_locked());
    (0..63).for_each(|_| send(2, &mut sync));
    (0..15).for_each(|_| send(0, &mut sync));
    (0..60).for_each(|_| send(1, &mut sync));
    assert!(sync.is_locked() && sync.losses() == 0, "fifteen in a window");
    (0..17).for_each(|_| send(3, &mut sync));
    assert!(!sync.is_locked());
    assert_eq!((sync.losses(), sync.bad_headers() >= 31), (1, true));
    assert!(told > 130);
}
