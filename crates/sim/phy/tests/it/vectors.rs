//! Comparison of the code with published values, and with the standard bit by bit.

use unrack_phy::mac::{Deframer, Framer};
use unrack_phy::pcs::{BlockDecoder, Column, Descrambler, Encoder, Scrambler, code};
use unrack_phy::{Block, DATA};

/// The example that the IEEE 802.3 task forces used for 64b/66b: P. Thaler, "10GBASE-R PCS", 10GEPON study group, July
/// 2006 (thaler_1_0706), after R. Walker, "64b/66b coding update", 802.3ae, July 2000 (walker_1_0700). The payloads
/// are those of the blocks on its slides: idle, start, eight data blocks with the FCS in the last one, end, idle.
const EXAMPLE: [u64; 12] = [
    0x0000_0000_0000_001e,
    0xd555_5555_5555_5578,
    0x8b0e_3805_7720_0008,
    0x0045_0008_0000_0000,
    0x061b_0000_661c_2800,
    0x0000_4d59_0000_d79e,
    0x0000_eb4a_2839_d168,
    0x1250_0c7a_0000_7730,
    0x0000_0000_8462_d21e,
    0x79f7_eb93_0000_0000,
    0x0000_0000_0000_0087,
    0x0000_0000_0000_001e,
];

/// First two blocks of the example, scrambled from a register of all ones (walker_1_0700).
const SCRAMBLED: [u64; 2] = [0x7bff_f080_0000_001e, 0x6230_16aa_aaad_1578];

/// Four idle blocks scrambled from all ones, as in the test of an unrelated open transmitter (Pcs_tx_scrambler,
/// University of Florida).
const SCRAMBLED_IDLE: [u64; 4] =
    [0x7bff_f080_0000_001e, 0x85cf_f0ff_fff8_401e, 0x85d8_4f01_1807_9ee1, 0x85d8_15fe_e847_9ee9];

fn example_blocks() -> Vec<Block> {
    let block = |(index, payload): (usize, &u64)| match index {
        2..=9 => Block::data(*payload),
        _ => Block::control(*payload),
    };
    EXAMPLE.iter().enumerate().map(block).collect()
}

fn example_frame() -> Vec<u8> {
    let mut bytes: Vec<u8> = EXAMPLE[2..10].iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(60);
    bytes
}

#[test]
fn the_example_is_encoded_as_published() {
    let mut columns = Vec::new();
    let mut framer = Framer::default();
    framer.idle(1, &mut columns);
    framer.frame(&example_frame(), &mut columns);
    let mut encoder = Encoder::default();
    let blocks: Vec<_> = columns.iter().map(|column| encoder.encode(*column)).collect();
    assert_eq!(blocks[..11], example_blocks()[..11]);
}

#[test]
fn the_example_is_decoded_to_its_frame() {
    let (mut decoder, mut deframer) = (BlockDecoder::default(), Deframer::default());
    let mut frames = Vec::new();
    for block in example_blocks() {
        if let Some(frame) = deframer.handle(decoder.decode(block)) {
            frames.push(frame.expect("its published FCS fits").to_vec());
        }
    }
    assert_eq!(frames, [example_frame()]);
}

#[test]
fn scrambled_as_published() {
    let mut scrambler = Scrambler::default();
    for (plain, scrambled) in EXAMPLE.iter().zip(SCRAMBLED) {
        assert_eq!(scrambler.scramble(*plain), scrambled);
    }
    let (mut scrambler, mut descrambler) = (Scrambler::default(), Descrambler::default());
    for scrambled in SCRAMBLED_IDLE {
        assert_eq!(scrambler.scramble(Block::IDLE.payload), scrambled);
        assert_eq!(descrambler.descramble(scrambled), Block::IDLE.payload);
    }
}

/// §49.2.6 bit by bit: S_n = D_n + S_(n-39) + S_(n-58), with a register of all ones.
#[test]
fn scrambled_as_the_standard_says_bit_by_bit() {
    let mut register = [true; 58];
    let mut scrambler = Scrambler::default();
    let mut word = 0x0123_4567_89ab_cdef_u64;
    for _ in 0..1_000 {
        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).rotate_left(17) ^ 0x2545;
        let mut scrambled = 0;
        for bit in 0..64 {
            let out = (word >> bit & 1 == 1) ^ register[38] ^ register[57];
            scrambled |= u64::from(out) << bit;
            register.copy_within(0..57, 1);
            register[0] = out;
        }
        assert_eq!(scrambler.scramble(word), scrambled);
    }
}

/// A descrambler that has the previous block restores the input, whatever the state of the scrambler.
#[test]
fn what_is_scrambled_is_descrambled() {
    let mut word = 0x0123_4567_89ab_cdef_u64;
    for _ in 0..1_000 {
        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).rotate_left(17) ^ 0x2545;
        let (mut scrambler, mut descrambler) = (Scrambler::after(word), Descrambler::after(word));
        for plain in [0, word, !word, u64::MAX] {
            assert_eq!(descrambler.descramble(scrambler.scramble(plain)), plain);
        }
    }
}

/// Figure 49-7, row by row: columns as (control, lanes 7 to 0), and blocks as fields with their widths, from bit 0 on.
#[test]
fn every_row_of_figure_49_7() {
    let d = 0xa7a6_a5a4_a3a2_a1a0_u64; // D(n) is 0xa(n)
    let idle = 0x0707_0707_0707_0707_u64;
    let mixed = |control: u8, others: u64| {
        let byte = |lane: u32| if control >> lane & 1 == 1 { others } else { d } >> (8 * lane) & 0xff;
        Column { data: (0..8).fold(0, |data, lane| data | byte(lane) << (8 * lane)), control }
    };
    let fields = |list: &[(u64, u32)]| {
        let (payload, bits) = list.iter().fold((0, 0), |(payload, at), (value, width)| {
            (if at < 64 { payload | value << at } else { payload }, at + width)
        });
        assert_eq!(bits, 64, "{list:x?}");
        Block::control(payload)
    };
    let set = |lane: u32| 0x9c << (8 * lane) | idle & !(0xff << (8 * lane));
    let start = |lane: u32| 0xfb << (8 * lane) | idle & !(0xff << (8 * lane));
    let end = |lane: u32| 0xfd << (8 * lane) | idle & !(0xff << (8 * lane));
    let low = (0xa3_a2a1, 24);
    let high = (0xa7_a6a5, 24);
    let reserved = 0xf7dc_bc7c_3c1c_0607_u64;
    let reserved_codes = [0x00, 0x06, 0x2d, 0x33, 0x4b, 0x55, 0x66, 0x78].map(|code| (code, 7));
    let mut rows = vec![
        (mixed(0xff, idle), fields(&[(0x1e, 8), (0, 56)])),
        (mixed(0xff, reserved), fields(&[&[(0x1e, 8)], &reserved_codes[..]].concat())),
        (mixed(0x1f, set(4)), fields(&[(0x2d, 8), (0, 28), (0, 4), high])),
        (mixed(0x1f, start(4)), fields(&[(0x33, 8), (0, 28), (0, 4), high])),
        (mixed(0x11, set(0) & 0xff | start(4) & !0xff), fields(&[(0x66, 8), low, (0, 4), (0, 4), high])),
        (mixed(0x11, set(0) & 0xff | set(4) & !0xff), fields(&[(0x55, 8), low, (0, 4), (0, 4), high])),
        (mixed(0x11, 0x5c | set(4) & !0xff), fields(&[(0x55, 8), low, (0xf, 4), (0, 4), high])),
        (mixed(0x01, start(0)), fields(&[(0x78, 8), (d >> 8, 56)])),
        (mixed(0xf1, set(0)), fields(&[(0x4b, 8), low, (0, 4), (0, 28)])),
        (mixed(0xf1, 0x5c | idle & !0xff), fields(&[(0x4b, 8), low, (0xf, 4), (0, 28)])),
    ];
    let ends = [0x87, 0x99, 0xaa, 0xb4, 0xcc, 0xd2, 0xe1, 0xff];
    for (lane, kind) in (0..8).zip(ends) {
        let data = (d & ((1_u64 << (8 * lane)) - 1), 8 * lane);
        let unused = (0, 7 - lane);
        let idles = (0, 7 * (7 - lane));
        rows.push((mixed((0xff_u32 << lane) as u8, end(lane)), fields(&[(kind, 8), data, unused, idles])));
    }
    for (column, block) in rows {
        assert_eq!(code::encode(column).1, block, "{column:x?}");
        assert_eq!(code::decode(block).1, column, "{block:x?}");
    }
    assert_eq!(code::encode(Column::data(d)).1, Block { header: DATA, payload: d });
}
