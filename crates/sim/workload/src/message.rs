//! Messages. A message is one operation of an application, such as a read, and the application waits for its
//! completion.

/// Number of a node in the rack. The numbers start from 0 and have no gaps.
pub type NodeId = u32;

/// Source and destination node of a message or packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoints {
    pub src: NodeId,
    pub dst: NodeId,
}

impl Endpoints {
    /// Returns the endpoints of the answer, which goes from the destination to the source.
    pub const fn reversed(self) -> Endpoints {
        Endpoints { src: self.dst, dst: self.src }
    }
}

/// Number of a message, in the order in which the messages of a run are submitted. The numbers start from 0 and have no
/// gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u32);

impl MessageId {
    /// Returns the number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Kind of a message, which determines when the message is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Request from `src` to `dst`, which `dst` answers with `bytes` bytes of data. It is complete when the data has
    /// arrived at `src`.
    Read,
    /// Data of `bytes` bytes from `src` to `dst`. It is complete when the data has arrived at `dst`.
    Write,
    /// Atomic read-modify-write: a request from `src` that carries the arguments, and that `dst` answers with `bytes`
    /// bytes. It is complete when the answer has arrived at `src`.
    Rmw,
    /// Byte stream from `src` to `dst`. It is complete when the last byte has arrived at `dst`.
    Flow,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Read, Kind::Write, Kind::Rmw, Kind::Flow];

    /// Returns the name of the kind in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Rmw => "rmw",
            Kind::Flow => "flow",
        }
    }

    /// Returns whether `dst` sends data, as the answer to a request from `src`.
    pub const fn is_answered(self) -> bool {
        matches!(self, Kind::Read | Kind::Rmw)
    }
}

/// Bytes of a read request, which contains a 64-bit remote address (EDM §2.3).
pub const READ_REQUEST_BYTES: u32 = 8;
/// Bytes of a compare-and-swap request, which contains three 64-bit arguments (EDM §2.3).
pub const RMW_REQUEST_BYTES: u32 = 24;

/// Message between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Node that submits the message. For a read or write, it is the node that computes.
    pub src: NodeId,
    /// Node to which the message is addressed.
    pub dst: NodeId,
    pub kind: Kind,
    /// Bytes of the request if the message is a read or read-modify-write; 0 for other kinds.
    pub request: u32,
    /// Bytes of data, at least 1. For a read or read-modify-write, this is the size of the answer; for a write or flow,
    /// it is the size of the message.
    pub bytes: u64,
    /// Tag that the source can choose. The source receives it again when the message is complete.
    pub tag: u32,
}

impl Message {
    /// Creates a read of `bytes` bytes, whose request has [`READ_REQUEST_BYTES`].
    pub const fn read(src: NodeId, dst: NodeId, bytes: u64) -> Message {
        Message { src, dst, kind: Kind::Read, request: READ_REQUEST_BYTES, bytes, tag: 0 }
    }
    /// Creates a write of `bytes` bytes.
    pub const fn write(src: NodeId, dst: NodeId, bytes: u64) -> Message {
        Message { src, dst, kind: Kind::Write, request: 0, bytes, tag: 0 }
    }
    /// Creates a read-modify-write that is answered with `bytes` bytes and whose request has [`RMW_REQUEST_BYTES`].
    pub const fn rmw(src: NodeId, dst: NodeId, bytes: u64) -> Message {
        Message { src, dst, kind: Kind::Rmw, request: RMW_REQUEST_BYTES, bytes, tag: 0 }
    }
    /// Creates a flow of `bytes` bytes.
    pub const fn flow(src: NodeId, dst: NodeId, bytes: u64) -> Message {
        Message { src, dst, kind: Kind::Flow, request: 0, bytes, tag: 0 }
    }
    /// Returns a copy of the message with this tag.
    pub const fn tagged(self, tag: u32) -> Message {
        Message { tag, ..self }
    }

    /// Returns the source and the destination of the message.
    pub const fn endpoints(&self) -> Endpoints {
        Endpoints { src: self.src, dst: self.dst }
    }

    /// Returns the node that sends the data: the destination if the message is answered with data, otherwise the
    /// source.
    pub const fn data_src(&self) -> NodeId {
        if self.kind.is_answered() { self.dst } else { self.src }
    }
    /// Returns the node that receives the data: the source if the message is answered with data, otherwise the
    /// destination.
    pub const fn data_dst(&self) -> NodeId {
        if self.kind.is_answered() { self.src } else { self.dst }
    }
    /// Returns the number of payload bytes that this message puts on the network, including its request.
    pub const fn payload(&self) -> u64 {
        self.bytes + self.request as u64
    }
}
