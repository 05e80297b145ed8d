//! The 66-bit block (IEEE 802.3 §49.2.4).

/// Sync header of a data block. Bit 0 is sent first.
pub const DATA: u8 = 0b10;
/// Sync header of a control block.
pub const CONTROL: u8 = 0b01;

/// A 66-bit block: a sync header of two bits and a payload of 64 bits. Bit 0 of each is sent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block {
    /// Sync header: [`DATA`] or [`CONTROL`]. A received block may also have the value 0 or 3, which is invalid.
    pub header: u8,
    pub payload: u64,
}

impl Block {
    /// Eight idle characters.
    pub const IDLE: Block = Block::control(0x1e);
    /// Control block with eight error characters, which a PCS sends in place of an invalid block.
    pub const ERROR: Block = Block::control(0x1e | 0x3c78_f1e3_c78f_1e00);

    /// Returns a data block of these eight bytes.
    pub const fn data(payload: u64) -> Block {
        Block { header: DATA, payload }
    }

    /// Returns a control block; the low byte of `payload` is the block type.
    pub const fn control(payload: u64) -> Block {
        Block { header: CONTROL, payload }
    }

    /// Returns whether the sync header is that of a data block.
    pub const fn is_data(self) -> bool {
        self.header == DATA
    }

    /// Returns the block type, which only a control block has.
    pub const fn block_type(self) -> Option<u8> {
        if self.header == CONTROL { Some(self.payload as u8) } else { None }
    }
}

/// Block types of the standard (figure 49-7).
pub mod types {
    /// Eight control characters.
    pub const CONTROLS: u8 = 0x1e;
    /// An ordered set in the second half.
    pub const ORDERED_4: u8 = 0x2d;
    /// A frame that starts in lane 4.
    pub const START_4: u8 = 0x33;
    /// An ordered set in the first half.
    pub const ORDERED_0: u8 = 0x4b;
    /// Two ordered sets.
    pub const ORDERED_0_4: u8 = 0x55;
    /// An ordered set, and a frame that starts in lane 4.
    pub const ORDERED_START: u8 = 0x66;
    /// A frame that starts in lane 0.
    pub const START_0: u8 = 0x78;
    /// A frame that ends in lane n.
    pub const TERMINATE: [u8; 8] = [0x87, 0x99, 0xaa, 0xb4, 0xcc, 0xd2, 0xe1, 0xff];

    pub const ALL: [u8; 15] =
        [0x1e, 0x2d, 0x33, 0x4b, 0x55, 0x66, 0x78, 0x87, 0x99, 0xaa, 0xb4, 0xcc, 0xd2, 0xe1, 0xff];
}
