//! Protocol between a process and the manager: messages over a Unix socket, some with descriptors.
//!
//! A message is one packet of a `SOCK_SEQPACKET` socket. The first one of each side is a preamble (magic number
//! and version) followed by a [`Hello`] or the answer to it; so any version can tell the other side that it does
//! not speak the other's. All later messages are [`Ask`] and [`Tell`], encoded by `postcard`. A message that
//! cannot be decoded, or comes with other descriptors than its kind has, ends the connection.

mod packets;

pub use packets::{Incoming, Malformed, receive, send, try_send};

use serde::{Deserialize, Serialize};
use unrack_units::Bytes;

/// Magic number: the first bytes of the first message of either side.
pub const MAGIC: [u8; 8] = *b"unrackpl";
/// Version of the protocol, raised with any change of these types.
pub const VERSION: u16 = 5;
/// Bytes of the longest message.
pub const MOST_BYTES: usize = 16 * 1024;
/// Descriptors that two processes may pass each other beside a greeting.
pub const MOST_PASSED: usize = 4;
/// Most descriptors of a message: the manager's own, and those passed.
pub const MOST_DESCRIPTORS: usize = 8;
/// Bytes of the longest greeting, either way.
pub const MOST_GREETING: usize = 1024;
/// Bytes of the longest name of a service or a process.
pub const MOST_NAME: usize = 128;
/// Bytes of the longest reason for a refusal.
pub const MOST_REASON: usize = 512;

/// Identity of a process, kept while it is connected and when it connects to the next manager. Never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId(pub u64);

/// Identity of a channel, a pair `<client, server>`. Never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChannelId(pub u64);

/// First message of a process; the descriptor of its bells goes with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Name that the process gives itself, for people who look.
    pub name: String,
    /// Identity that the process had with the manager before.
    pub again: Option<ClientId>,
}

/// Answer of the manager to a [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub you: ClientId,
    /// Bytes of the address space, a multiple of a section.
    pub space_bytes: u64,
    /// Most sections that are leased at a time for small buffers (K; DRack §4.2).
    pub region_sections: u32,
    /// Bytes of every queue area.
    pub queue_bytes: u64,
    /// Interleave set, if the memory consists of devices. Their descriptors go with this message: all of the
    /// space is mapped at once. Otherwise each segment comes with a descriptor.
    pub devices: Option<crate::interleave::Interleave>,
    /// Way in which this memory is reached.
    pub mode: crate::cache_control::MemoryKind,
}

/// Range of the address space, in bytes, with one owner and one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extent {
    pub offset: u64,
    pub bytes: u64,
}

impl Extent {
    /// Returns the offset just behind the extent; extents that the manager gives do not overflow.
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// Kind of access to a granted segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    Read,
    Write,
}

/// A process, as the kernel and the manager know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerProcess {
    pub id: ClientId,
    /// Process number; 0 if it is not on this host, and only its name is known.
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
    /// Name that the process gives itself.
    pub name: String,
}

impl PeerProcess {
    /// Returns whether the process is on another host.
    pub fn is_far(&self) -> bool {
        self.pid == 0
    }
}

impl std::fmt::Display for PeerProcess {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pid {
            0 => out.write_str(&self.name),
            pid => write!(out, "{:?} (process {pid}, user {})", self.name, self.uid),
        }
    }
}

/// A request; the reply has its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub number: u32,
    pub request: Request,
}

/// Request of a process to the manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Leases a segment of whole sections. Reply: [`Reply::Leased`], with its descriptor.
    Lease { sections: u32 },
    /// Releases a segment that the process owns and has unmapped.
    Release { offset: u64 },
    /// Lets the other side of a channel map a segment that this process owns. Once the reply has come, the
    /// manager sends the other side's [`Event::Granted`] before anything that it tells it later.
    Grant { channel: ChannelId, offset: u64, access: Access },
    /// Registers a service under a name.
    Register { service: String },
    /// Gives up a service's name.
    Withdraw { service: String },
    /// Asks a service for a channel, and passes descriptors to it. Reply: [`Reply::Opened`], once the service has
    /// answered.
    Open { service: String, greeting: Vec<u8>, bell: u32 },
    /// Takes back an unanswered [`Open`](Request::Open): it opens no channel any more.
    Abandon { number: u32 },
    /// Answers an [`Event::Offered`], and passes descriptors to the other side.
    Answer { channel: ChannelId, verdict: Result<Accepted, RefusedCaller> },
    /// Closes this side of a channel, which has unmapped all that came by it.
    Close { channel: ChannelId },
    /// Hands a segment that the process owns to the next manager, with its descriptor unless it is in a device.
    HandBack { offset: u64 },
    /// Tells the next manager the channels that this process has.
    Keep { channels: Vec<ChannelId> },
    /// Ends what the process tells the next manager: anything beyond that it no longer has. The manager then
    /// repeats the events that the process may have missed.
    Resumed,
    /// Asks for the entries of the listing from an index on. Reply: [`Reply::Listed`].
    List { from: u64 },
    /// Has the manager ask all processes how many bytes of their buffers are in use.
    Count,
    /// Answers [`Event::Count`]. Used only in listings.
    Counted { used_bytes: u64 },
    /// Does nothing: the reply follows all that the manager told before.
    Sync,
    /// Announces that the process has unmapped everything and leaves.
    Leave,
    /// Announces that this side cannot map what the other granted, and has no use for the channel. It closes the
    /// channel once nothing of it is in use.
    GiveUp { channel: ChannelId },
    /// Declares that a host has ended, so that what it had is free: nothing of it can reach the device any more.
    DeclareEnded { host: u32, force: bool },
    /// Announces that this side has unmapped a segment that its owner had withdrawn. Otherwise it has it mapped until it
    /// closes the channel.
    Unmapped { channel: ChannelId, offset: u64 },
    /// Wakes the other side of a channel to another host, which sleeps. Needs no reply.
    Ring { channel: ChannelId },
}

/// Acceptance of a caller by a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub greeting: Vec<u8>,
    /// Index of the service's bell that the caller is to ring.
    pub bell: u32,
}

/// Refusal of a caller by a service. The protocol above defines `code` and `text`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedCaller {
    pub code: u32,
    pub text: String,
}

/// Message of the manager to a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tell {
    Reply { number: u32, outcome: Result<Reply, Denied> },
    Event(Event),
}

/// Reply of the manager to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    Done,
    /// The leased segment; its descriptor goes with it.
    Leased(Extent),
    /// The opened channel, with the descriptors of the queue area and the peer's bells, and those that the
    /// service passed.
    Opened(OpenedChannel),
    /// Part of the listing; `next` is the index from which to ask on.
    Listed {
        entries: Vec<ListingEntry>,
        next: Option<u64>,
    },
}

/// A channel, as one side sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedChannel {
    pub channel: ChannelId,
    pub peer: PeerProcess,
    pub queues: Extent,
    /// Index of the peer's bell to ring.
    pub bell: u32,
    /// True if the peer can be woken: it is on this host, or both hosts have doorbells.
    pub rings: bool,
    pub greeting: Vec<u8>,
}

/// Event that the manager tells a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A client opens this process's service; descriptors as with [`Reply::Opened`].
    Offered { service: String, offer: OpenedChannel },
    /// The other side of a channel granted a segment, whose descriptor goes with it.
    Granted { channel: ChannelId, segment: Extent, access: Access },
    /// The owner released a segment that it had granted: offsets in it are no longer valid.
    Withdrawn { channel: ChannelId, offset: u64 },
    /// The manager asks how many bytes of buffers are in use.
    Count,
    /// The other side of the channel, on another host, wakes this process.
    Rung { channel: ChannelId },
    /// The other side of the channel is gone.
    Gone { channel: ChannelId, cause: Cause },
}

/// Reason why a peer is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The peer closed the channel, or took back its request for it.
    Closed,
    /// The peer's process ended, or its connection to the manager did.
    Died,
    /// The peer cannot map a segment that it was granted.
    CannotMap,
    /// The peer's host shows nothing any more: it stopped, ended, or is cut off; or its manager was started again.
    HostSilent,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Cause::Closed => "closed the channel",
            Cause::Died => "died",
            Cause::HostSilent => "is on a host that stopped, ended, or whose manager was started again",
            Cause::CannotMap => {
                "cannot map the memory that it was granted: it has reached its limit of open files (`ulimit -n`), or \
                 has no memory"
            }
        })
    }
}

/// Reason why the manager denies a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Denied {
    #[error(
        "the manager speaks version {theirs} of the pool's protocol and this program version {VERSION}: use the same release of both"
    )]
    Version { theirs: u16 },
    #[error(
        "the pool is full: {asked} sections of 2 MiB in a row were asked for, {free} of {all} are free: stop what holds them (`unrack pool ls`), or start the manager with more --capacity"
    )]
    Full { asked: u32, free: u32, all: u32 },
    #[error("the machine has no memory for the pool: {0}")]
    Memory(String),
    #[error("no service is named {0:?}: start it first (`unrack pool ls` lists services)")]
    NoService(String),
    #[error("the name {name:?} is taken by {by}: stop it, or use another name")]
    NameTaken { name: String, by: PeerProcess },
    #[error("the name is invalid: use 1 to {MOST_NAME} visible characters")]
    BadName,
    #[error("the greeting is longer than {MOST_GREETING} bytes: shorten it")]
    LongGreeting,
    #[error("the service refused: {} (code {})", .0.text, .0.code)]
    Refused(RefusedCaller),
    #[error("{peer} {cause}")]
    Gone { peer: PeerProcess, cause: Cause },
    #[error("{0} does not read the manager's messages")]
    Slow(PeerProcess),
    #[error("{what}: the limit is {most}")]
    Limit { what: Limited, most: u32 },
    #[error(
        "this segment was granted before with the other access: grant a segment either for reading or for writing"
    )]
    Sealed,
    #[error("this pool is of one host: serve it with `unrack pool serve --device PATH --host N`")]
    NoHosts,
    #[error("there is no other host {0}: `unrack pool ls` lists them")]
    NoSuchHost(u32),
    #[error("host {0} shows nothing: it stopped, ended, is cut off, or does not read its messages")]
    HostSilent(u32),
    #[error("descriptors cannot be passed to another host")]
    DescriptorsAfar,
    #[error("the request names something that this process does not have")]
    NotYours,
    #[error("only the manager's predecessor knew this process: connect again")]
    Stranger,
    #[error(
        "{whose} may have {} of the pool and {}: {} more exceed that; free memory, or start the manager with more \
         --per-client",
        Bytes::new(*quota_bytes), has(*held_bytes), Bytes::new(*asked_bytes)
    )]
    Quota { whose: Whose, asked_bytes: u64, held_bytes: u64, quota_bytes: u64 },
    #[error(
        "this pool is of user {user} alone: {why}; connect as that user, or have the pool served with \
             `--backing memfd`"
    )]
    OneUser { user: u32, why: String },
    #[error(
        "host {0} runs, since its heartbeat moves: switch it off first, or give --force; its programs would be ended, and \
         could write into what others have until they are"
    )]
    HostRuns(u32),
}

fn has(bytes: u64) -> String {
    if bytes == 0 { "has none".into() } else { format!("has {}", Bytes::new(bytes)) }
}

/// Holder of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whose {
    /// The process, with all its connections.
    Process,
    /// A user other than the manager's, with all processes together.
    User(u32),
}

impl std::fmt::Display for Whose {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Whose::Process => out.write_str("this process"),
            Whose::User(user) => write!(out, "user {user}, with all processes together,"),
        }
    }
}

/// Thing of which each client may have a limited number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limited {
    Channels,
    Services,
    Segments,
    Grants,
    Connections,
    /// Channels that clients opened to a service.
    Served,
    /// All of the above together, which have records in the ledger.
    Records,
}

impl std::fmt::Display for Limited {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Limited::Channels => "this client has opened too many channels",
            Limited::Services => "this client has too many services",
            Limited::Segments => "this client has too many segments",
            Limited::Grants => "too many segments were granted by one channel",
            Limited::Connections => "there are too many connections to the manager",
            Limited::Served => "the service has too many channels",
            Limited::Records => {
                "this client has too many connections, channels, services, segments and grants together"
            }
        })
    }
}

/// Standing of a host among those that share a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostStanding {
    /// State of a host that shows that it serves.
    Serving,
    /// State of a host that has shown nothing for a while; what it has stays its own.
    Silent,
    /// State of a host that was declared ended: what it had is free.
    Ended,
    /// State of a host that left, and has nothing.
    Left,
}

impl std::fmt::Display for HostStanding {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            HostStanding::Serving => "serving",
            HostStanding::Silent => "silent",
            HostStanding::Ended => "ended",
            HostStanding::Left => "left",
        })
    }
}

/// One entry of the listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListingEntry {
    /// The pool. `per_client_bytes`: most bytes that one client may have.
    Pool {
        capacity_bytes: u64,
        free_bytes: u64,
        backing: String,
        per_client_bytes: u64,
    },
    /// A host that shares the device.
    Host {
        host: u32,
        name: String,
        standing: HostStanding,
        is_here: bool,
        /// True while messages pass between its manager and this one.
        is_linked: bool,
        /// True if others can wake its manager.
        has_doorbell: bool,
        claimed_bytes: u64,
    },
    /// A client. `quota_used_bytes`: bytes that count against its quota, with all connections that count together
    /// with it.
    Client {
        peer: PeerProcess,
        used_bytes: Option<u64>,
        quota_used_bytes: u64,
    },
    Segment {
        extent: Extent,
        owner: Option<ClientId>,
        granted: Vec<(ClientId, Access)>,
    },
    Service {
        name: String,
        by: ClientId,
    },
    /// A service of another host.
    FarService {
        name: String,
        by: PeerProcess,
    },
    Channel {
        id: ChannelId,
        service: String,
        client: ClientId,
        server: ClientId,
        open: bool,
        queues: Extent,
    },
}

/// Returns the preamble followed by a message.
pub fn first<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(encode(message));
    bytes
}

/// Reads a first message.
///
/// # Errors
/// Returns the version of the other side if it differs, or zero if the message is not of this protocol.
pub fn read_first<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, u16> {
    let Some((preamble, rest)) = bytes.split_at_checked(MAGIC.len() + 2) else { return Err(0) };
    if preamble[..MAGIC.len()] != MAGIC {
        return Err(0);
    }
    match u16::from_le_bytes([preamble[8], preamble[9]]) {
        VERSION => decode(rest).map_err(|_| 0),
        theirs => Err(theirs),
    }
}

/// Encodes a message.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    postcard::to_allocvec(message).expect("these types always encode")
}

/// Decodes a message.
///
/// # Errors
/// If the bytes are not of that type, or there are too many.
pub fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, Malformed> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(Malformed),
    }
}
