//! Comparison of the conversion of whole frames and many blocks with that of one column and one block at a time.

use proptest::prelude::*;
use unrack_phy::Block;
use unrack_phy::block::types;
use unrack_phy::mac::{Deframer, FrameError, Framer, MAX_FRAME};
use unrack_phy::pcs::{BlockDecoder, Descrambler, Encoder, Scrambler};
use unrack_phy::port::{Receiver, Transmitter};

/// Input of a sender.
#[derive(Debug, Clone)]
enum Sent {
    Frame(Vec<u8>),
    Idle(usize),
}

fn sent() -> impl Strategy<Value = Vec<Sent>> {
    let frame =
        |least: usize, most: usize| proptest::collection::vec(any::<u8>(), least..most).prop_map(Sent::Frame);
    let one = prop_oneof![
        4 => frame(0, 200),
        1 => frame(MAX_FRAME - 8, MAX_FRAME + 40),
        1 => (0..4_usize).prop_map(Sent::Idle),
    ];
    proptest::collection::vec(one, 0..20)
}

fn transmitted(sent: &[Sent]) -> Vec<Block> {
    let (mut transmitter, mut line) = (Transmitter::default(), Vec::new());
    for one in sent {
        match one {
            Sent::Frame(contents) => transmitter.frame(contents, &mut line),
            Sent::Idle(count) => transmitter.idle(*count, &mut line),
        }
    }
    transmitter.idle(2, &mut line);
    line
}

fn transmitted_by_column(sent: &[Sent]) -> Vec<Block> {
    let (mut framer, mut columns) = (Framer::default(), Vec::new());
    for one in sent {
        match one {
            Sent::Frame(contents) => framer.frame(contents, &mut columns),
            Sent::Idle(count) => framer.idle(*count, &mut columns),
        }
    }
    framer.idle(2, &mut columns);
    let (mut encoder, mut scrambler) = (Encoder::default(), Scrambler::default());
    let scrambled = |column| {
        let block = encoder.encode(column);
        Block { payload: scrambler.scramble(block.payload), ..block }
    };
    columns.into_iter().map(scrambled).collect()
}

type Outcome = Result<Vec<u8>, FrameError>;

/// Receives blocks in pieces of these lengths, which are used in turn.
fn received(line: &[Block], pieces: &[usize]) -> Vec<Outcome> {
    let (mut receiver, mut frames, mut rest) = (Receiver::default(), Vec::new(), line);
    for length in pieces.iter().cycle() {
        let (piece, behind) = rest.split_at(rest.len().min(*length));
        receiver.handle(piece, |frame| frames.push(frame.map(<[u8]>::to_vec)));
        if behind.is_empty() {
            break;
        }
        rest = behind;
    }
    frames
}

fn received_by_block(line: &[Block]) -> Vec<Outcome> {
    let (mut descrambler, mut decoder, mut deframer) =
        (Descrambler::default(), BlockDecoder::default(), Deframer::default());
    let frames = line.iter().filter_map(|block| {
        let payload = descrambler.descramble(block.payload);
        let frame = deframer.handle(decoder.decode(Block { payload, ..*block }));
        frame.map(|frame| frame.map(<[u8]>::to_vec))
    });
    frames.collect()
}

/// Returns blocks of every type with any content, and idle blocks.
fn any_block() -> impl Strategy<Value = Block> {
    let of_type = |rest: BoxedStrategy<u64>| {
        (prop::sample::select(&types::ALL[..]), rest)
            .prop_map(|(kind, rest)| Block::control(rest & !0xff | u64::from(kind)))
    };
    prop_oneof![
        2 => of_type(any::<u64>().boxed()),
        4 => of_type(Just(0).boxed()),
        4 => any::<u64>().prop_map(Block::data),
        1 => (0..4_u8, any::<u64>()).prop_map(|(header, payload)| Block { header, payload }),
    ]
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(1..40_usize, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_transmitter_sends_what_its_parts_send(sent in sent()) {
        prop_assert_eq!(transmitted(&sent), transmitted_by_column(&sent));
    }

    #[test]
    fn a_receiver_takes_what_its_parts_take(sent in sent(), pieces in pieces(), wrong in any::<prop::sample::Index>(), bit in 0..66_u32) {
        let mut line = transmitted(&sent);
        let good = received(&line, &pieces);
        prop_assert_eq!(&good, &received_by_block(&line));
        let frames = sent.iter().filter(|one| matches!(one, Sent::Frame(_)));
        for (frame, got) in frames.zip(&good) {
            let Sent::Frame(contents) = frame else { unreachable!() };
            match got {
                Ok(got) => prop_assert_eq!(&got[..contents.len()], &contents[..]),
                Err(why) => prop_assert!(*why == FrameError::Long && contents.len() > MAX_FRAME, "{:?}", why),
            }
        }
        let at = wrong.index(line.len());
        match bit {
            0..2 => line[at].header ^= 1 << bit,
            bit => line[at].payload ^= 1 << (bit - 2),
        }
        prop_assert_eq!(received(&line, &pieces), received_by_block(&line));
    }

    #[test]
    fn a_receiver_takes_nonsense_as_its_parts_do(
        mut line in proptest::collection::vec(any_block(), 0..400), sent in sent(), pieces in pieces(),
    ) {
        let mut scrambler = Scrambler::default();
        line.iter_mut().for_each(|block| block.payload = scrambler.scramble(block.payload));
        line.extend(transmitted(&sent));
        prop_assert_eq!(received(&line, &pieces), received_by_block(&line));
    }
}
