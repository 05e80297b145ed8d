//! What is carried: one message is one thing an application waits for.

/// A node of the rack, dense from 0.
pub type NodeId = u32;

/// The n-th message submitted in a run, dense from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u32);

impl MessageId {
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a message does, which decides when it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A request from `src` to `dst`, answered with `bytes` of data: complete when the data is at `src`.
    Read,
    /// `bytes` of data from `src` to `dst`: complete when the data is at `dst`.
    Write,
    /// An atomic read-modify-write: a request that carries its arguments, answered with `bytes`;
    /// complete when the answer is at `src`.
    Rmw,
    /// A byte stream from `src` to `dst`: complete when the last byte is at `dst`.
    Flow,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Read, Kind::Write, Kind::Rmw, Kind::Flow];

    /// As in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Rmw => "rmw",
            Kind::Flow => "flow",
        }
    }

    /// Whether `dst` sends the data, asked by a request from `src`.
    pub const fn is_answered(self) -> bool {
        matches!(self, Kind::Read | Kind::Rmw)
    }
}

/// EDM §2.3: a read request holds a 64-bit remote address.
pub const READ_REQUEST_BYTES: u32 = 8;
/// EDM §2.3: compare-and-swap holds three 64-bit arguments.
pub const RMW_REQUEST_BYTES: u32 = 24;

/// One message: who asks whom, for what, how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Who asks: the compute side of a read or write.
    pub src: NodeId,
    /// Who is asked.
    pub dst: NodeId,
    pub kind: Kind,
    /// Bytes of the request of a read or rmw; 0 for the others.
    pub request: u32,
    /// Bytes of data: of the answer to a read or rmw, of what a write or flow carries. At least 1.
    pub bytes: u64,
    /// For the source alone: handed back to it on completion.
    pub tag: u32,
}

impl Message {
    pub const fn read(src: NodeId, dst: NodeId, bytes: u64) -> Message {
        Message { src, dst, kind: Kind::Read, request: READ_REQUEST_BYTES, bytes, tag: 0 }
    }
    pub const fn write(src: NodeId, dst: NodeId, bytes: u64) -> Message {
        Message { src, dst, kind: Kind::Write, request: 0, bytes, tag: 0 }
    }
    pub const fn rmw(src: NodeId, dst: NodeId, bytes: u64) -> Message {
        Message { src, dst, kind: Kind::Rmw, request: RMW_REQUEST_BYTES, bytes, tag: 0 }
    }
    pub const fn flow(src: NodeId, dst: NodeId, bytes: u64) -> Message {
        Message { src, dst, kind: Kind::Flow, request: 0, bytes, tag: 0 }
    }
    pub const fn tagged(self, tag: u32) -> Message {
        Message { tag, ..self }
    }

    /// The node whose link the data leaves by.
    pub const fn data_src(&self) -> NodeId {
        if self.kind.is_answered() { self.dst } else { self.src }
    }
    /// The node whose link the data comes in by.
    pub const fn data_dst(&self) -> NodeId {
        if self.kind.is_answered() { self.src } else { self.dst }
    }
    /// Every byte of payload this message puts on the network.
    pub const fn payload(&self) -> u64 {
        self.bytes + self.request as u64
    }
}
