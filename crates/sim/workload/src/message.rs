//! Messages. A message is one operation whose completion an application waits for.

/// Number of a node in the rack; numbers start from 0 and have no gaps.
pub type NodeId = u32;

/// Source and destination of a message or packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoints {
    pub src: NodeId,
    pub dst: NodeId,
}

impl Endpoints {
    /// Returns the endpoints of the answer.
    pub const fn reversed(self) -> Endpoints {
        Endpoints { src: self.dst, dst: self.src }
    }
}

/// Number of a message in the order of submission in a run; numbers start from 0 and have no gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u32);

impl MessageId {
    /// Returns the number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Kind of a message, which decides when it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Request from `src` to `dst` that is answered with `bytes` of data. It is complete when the data is at `src`.
    Read,
    /// Data of `bytes` from `src` to `dst`. It is complete when the data is at `dst`.
    Write,
    /// Atomic read-modify-write: a request that carries its arguments and is answered with `bytes`. It is complete
    /// when the answer is at `src`.
    Rmw,
    /// Byte stream from `src` to `dst`. It is complete when the last byte is at `dst`.
    Flow,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Read, Kind::Write, Kind::Rmw, Kind::Flow];

    /// Returns the name used in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Rmw => "rmw",
            Kind::Flow => "flow",
        }
    }

    /// Returns whether `dst` sends the data, in answer to a request from `src`.
    pub const fn is_answered(self) -> bool {
        matches!(self, Kind::Read | Kind::Rmw)
    }
}

/// Bytes of a read request, which holds a 64-bit remote address (EDM §2.3).
pub const READ_REQUEST_BYTES: u32 = 8;
/// Bytes of a compare-and-swap request, which holds three 64-bit arguments (EDM §2.3).
pub const RMW_REQUEST_BYTES: u32 = 24;

/// Message between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Node that submits the message, which is the compute side of a read or write.
    pub src: NodeId,
    /// Node to which the message is addressed.
    pub dst: NodeId,
    pub kind: Kind,
    /// Bytes of the request of a read or rmw; 0 for other kinds.
    pub request: u32,
    /// Bytes of data: of the answer for a read or rmw, and of the message for a write or flow. At least 1.
    pub bytes: u64,
    /// Tag for use by the source, which gets it back on completion.
    pub tag: u32,
}

impl Message {
    /// Creates a read of `bytes` with a request of [`READ_REQUEST_BYTES`].
    pub const fn read(src: NodeId, dst: NodeId, bytes: u64) -> Message {
        Message { src, dst, kind: Kind::Read, request: READ_REQUEST_BYTES, bytes, tag: 0 }
    }
    /// Creates a write of `bytes`.
    pub const fn write(src: NodeId, dst: NodeId, bytes: u64) -> Message {
        Message { src, dst, kind: Kind::Write, request: 0, bytes, tag: 0 }
    }
    /// Creates a read-modify-write that is answered with `bytes` and has a request of [`RMW_REQUEST_BYTES`].
    pub const fn rmw(src: NodeId, dst: NodeId, bytes: u64) -> Message {
        Message { src, dst, kind: Kind::Rmw, request: RMW_REQUEST_BYTES, bytes, tag: 0 }
    }
    /// Creates a flow of `bytes`.
    pub const fn flow(src: NodeId, dst: NodeId, bytes: u64) -> Message {
        Message { src, dst, kind: Kind::Flow, request: 0, bytes, tag: 0 }
    }
    /// Returns the message with this tag.
    pub const fn tagged(self, tag: u32) -> Message {
        Message { tag, ..self }
    }

    /// Returns the node that submitted the message, and the other node.
    pub const fn endpoints(&self) -> Endpoints {
        Endpoints { src: self.src, dst: self.dst }
    }

    /// Returns the node that sends the data over its link.
    pub const fn data_src(&self) -> NodeId {
        if self.kind.is_answered() { self.dst } else { self.src }
    }
    /// Returns the node that receives the data over its link.
    pub const fn data_dst(&self) -> NodeId {
        if self.kind.is_answered() { self.src } else { self.dst }
    }
    /// Returns all bytes of payload that this message puts on the network.
    pub const fn payload(&self) -> u64 {
        self.bytes + self.request as u64
    }
}
