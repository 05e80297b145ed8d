//! Columns of the media-independent interface between MAC and PCS (clause 46). A column has eight characters, which take two transfers of
//! XGMII or 25GMII.

/// Idle character.
pub const IDLE: u8 = 0x07;
/// Low power idle character.
pub const LOW_POWER: u8 = 0x06;
/// Start of a frame, which takes the place of the first byte of the preamble.
pub const START: u8 = 0xfb;
/// End of a frame.
pub const TERMINATE: u8 = 0xfd;
/// Error character.
pub const ERROR: u8 = 0xfe;
/// Start of a sequence ordered set, such as a fault report.
pub const SEQUENCE: u8 = 0x9c;
/// Start of a signal ordered set.
pub const SIGNAL: u8 = 0x5c;

/// A column of eight characters. Byte n of `data` is the character in lane n. Bit n of `control` is set if this character is a control
/// character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Column {
    pub data: u64,
    pub control: u8,
}

impl Column {
    pub const IDLE: Column = Column { data: 0x0707_0707_0707_0707, control: 0xff };
    pub const ERROR: Column = Column { data: 0xfefe_fefe_fefe_fefe, control: 0xff };
    /// Column with two local fault messages (§46.3.4), which a receiver outputs while it has no valid blocks.
    pub const LOCAL_FAULT: Column = Column { data: 0x0100_009c_0100_009c, control: 0x11 };

    /// Returns a column of eight data bytes.
    pub const fn data(data: u64) -> Column {
        Column { data, control: 0 }
    }

    /// Returns the character in a lane.
    pub const fn lane(self, lane: usize) -> u8 {
        (self.data >> (8 * lane)) as u8
    }

    /// Returns whether the character in a lane is a control character.
    pub const fn is_control(self, lane: usize) -> bool {
        self.control >> lane & 1 == 1
    }
}

/// Consumer of columns.
pub trait ColumnSink {
    /// Handles a column.
    fn column(&mut self, column: Column);

    /// Handles data columns with these words.
    fn data(&mut self, words: impl ExactSizeIterator<Item = u64>) {
        words.for_each(|word| self.column(Column::data(word)));
    }
}

impl ColumnSink for Vec<Column> {
    fn column(&mut self, column: Column) {
        self.push(column);
    }
}
