//! Eight characters of the media-independent interface: two transfers of XGMII or 25GMII (clause 46).

/// Idle.
pub const IDLE: u8 = 0x07;
/// Low power idle.
pub const LOW_POWER: u8 = 0x06;
/// The start of a frame: takes the place of the first byte of its preamble.
pub const START: u8 = 0xfb;
/// The end of a frame.
pub const TERMINATE: u8 = 0xfd;
/// An error.
pub const ERROR: u8 = 0xfe;
/// The start of a sequence ordered set, such as a fault report.
pub const SEQUENCE: u8 = 0x9c;
/// The start of a signal ordered set.
pub const SIGNAL: u8 = 0x5c;

/// Byte n of `data` is lane n; bit n of `control` says that it is a control character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Column {
    pub data: u64,
    pub control: u8,
}

impl Column {
    pub const IDLE: Column = Column { data: 0x0707_0707_0707_0707, control: 0xff };
    pub const ERROR: Column = Column { data: 0xfefe_fefe_fefe_fefe, control: 0xff };
    /// Local fault, twice (§46.3.4): what a receiver says that has no blocks.
    pub const LOCAL_FAULT: Column = Column { data: 0x0100_009c_0100_009c, control: 0x11 };

    pub const fn data(data: u64) -> Column {
        Column { data, control: 0 }
    }

    pub const fn lane(self, lane: usize) -> u8 {
        (self.data >> (8 * lane)) as u8
    }

    pub const fn is_control(self, lane: usize) -> bool {
        self.control >> lane & 1 == 1
    }
}

/// Where columns go.
pub trait Columns {
    fn column(&mut self, column: Column);

    /// Columns of data, of which these are the words.
    fn data(&mut self, words: impl ExactSizeIterator<Item = u64>) {
        words.for_each(|word| self.column(Column::data(word)));
    }
}

impl Columns for Vec<Column> {
    fn column(&mut self, column: Column) {
        self.push(column);
    }
}
