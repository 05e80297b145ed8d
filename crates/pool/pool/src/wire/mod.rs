//! Protocol between a process and the manager: messages over a Unix socket, some of which carry descriptors.
//!
//! A message is one packet of a `SOCK_SEQPACKET` socket. The first message of each side is a preamble (magic number and
//! version) followed by a [`Hello`] or the answer to it. Because the preamble never changes, a manager or process of
//! any version can report that it does not speak the version of its peer. All later messages are [`Ask`] and [`Tell`],
//! encoded by `postcard`. A message ends the connection if it cannot be decoded, or if it carries other descriptors
//! than its kind requires.

mod packets;

pub use packets::{Malformed, ReceivedPacket, receive, send, try_send};

use serde::{Deserialize, Serialize};
use unrack_units::Bytes;

/// Magic number: the first bytes of the first message that each side sends.
pub const MAGIC: [u8; 8] = *b"unrackpl";
/// Version of the protocol; every change of the types in this module raises it.
pub const VERSION: u16 = 5;
/// Largest size of a message in bytes.
pub const MOST_BYTES: usize = 16 * 1024;
/// Maximum number of descriptors that a process may pass to another process with a greeting.
pub const MOST_PASSED: usize = 4;
/// Maximum number of descriptors of one message: those that the manager adds, and those that a process passes.
pub const MOST_DESCRIPTORS: usize = 8;
/// Largest size of a greeting in bytes, from client to service and back.
pub const MOST_GREETING: usize = 1024;
/// Largest size of the name of a service or process, in bytes.
pub const MOST_NAME: usize = 128;
/// Largest size of the text of a refusal, in bytes.
pub const MOST_REASON: usize = 512;

/// Identity of a process in the pool. A process keeps it while it is connected, and when it reconnects to the next
/// manager. The manager never assigns it to another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId(pub u64);

/// Identity of a channel, a pair `<client, server>`. The manager never assigns it to another channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChannelId(pub u64);

/// First message of a process to the manager. The descriptor of the process's wakeups goes with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Name that the process chooses for itself; it is shown to people who list the pool.
    pub name: String,
    /// Identity that the process had with the previous manager, if it reconnects.
    pub again: Option<ClientId>,
}

/// Answer of the manager to a [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub you: ClientId,
    /// Size of the address space in bytes, a multiple of a section.
    pub space_bytes: u64,
    /// Maximum number of sections that are leased at a time for small buffers (K; DRack §4.2).
    pub region_sections: u32,
    /// Size of every queue area in bytes.
    pub queue_bytes: u64,
    /// Interleave set, if the memory consists of devices. Then the descriptors of the devices go with this message, and
    /// the process maps the whole space at once. Otherwise each segment comes with its own descriptor.
    pub devices: Option<crate::interleave::Interleave>,
    /// Kind of memory, which determines how a process must access it.
    pub mode: crate::cache_control::MemoryKind,
}

/// Range of the address space, in bytes. It has one owner and one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extent {
    pub offset: u64,
    pub bytes: u64,
}

impl Extent {
    /// Returns the offset of the first byte after the extent. Extents from the manager never overflow.
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

/// A process, as described by the kernel and the manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerProcess {
    pub id: ClientId,
    /// Process number; 0 if the process is on another host and only its name is known.
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
    /// Name that the process chose for itself.
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

/// A request; its reply carries the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub number: u32,
    pub request: Request,
}

/// Request of a process to the manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Leases a segment of whole sections. Reply: [`Reply::Leased`], with the segment's descriptor.
    Lease { sections: u32 },
    /// Releases a segment that the process owns and has unmapped.
    Release { offset: u64 },
    /// Lets the process at the other side of a channel map a segment that the sender owns. The manager replies only
    /// after it has queued [`Event::Granted`] for that process, so every later message to that process follows the
    /// grant.
    Grant { channel: ChannelId, offset: u64, access: Access },
    /// Registers a service under a name.
    Register { service: String },
    /// Frees the name of a service.
    Withdraw { service: String },
    /// Asks a service for a channel, and passes descriptors to the service. Reply: [`Reply::Opened`], once the service
    /// has answered.
    Open { service: String, greeting: Vec<u8>, wakeup: u32 },
    /// Cancels an unanswered [`Open`](Request::Open), so that it no longer opens a channel.
    Abandon { number: u32 },
    /// Answers an [`Event::Offered`], and passes descriptors to the client that asked for the channel.
    Answer { channel: ChannelId, verdict: Result<Accepted, RefusedCaller> },
    /// Closes the sender's side of a channel. The sender has unmapped everything that it received by the channel.
    Close { channel: ChannelId },
    /// Reports a segment that the process owns to the next manager, after the previous manager was killed. The
    /// segment's descriptor goes with the request unless the segment is in a device.
    HandBack { offset: u64 },
    /// Reports to the next manager the channels that this process still has.
    Keep { channels: Vec<ChannelId> },
    /// Ends the report of a process to the next manager: the process no longer has any segment, channel or service that
    /// it did not report. The manager then repeats the events that the process may have missed.
    Resumed,
    /// Asks for the entries of the listing, starting at an index. Reply: [`Reply::Listed`].
    List { from: u64 },
    /// Makes the manager ask all processes how many bytes of their buffers are in use.
    Count,
    /// Answers [`Event::Count`]; the number is used only in listings.
    Counted { used_bytes: u64 },
    /// Does nothing in the manager. The reply shows the process that it has received all messages that the manager sent
    /// before.
    Sync,
    /// Announces that the process has unmapped everything and disconnects.
    Leave,
    /// Announces that the sender cannot map a segment that its peer granted, and therefore cannot use the channel. The
    /// sender closes the channel later, once it no longer uses any memory of the channel.
    GiveUp { channel: ChannelId },
    /// Declares that a host has ended and can no longer reach the device, so that the sections of that host become
    /// free.
    DeclareEnded { host: u32, force: bool },
    /// Announces that the sender has unmapped a segment that its owner had withdrawn. Without this request, the segment
    /// counts as mapped until the sender closes the channel.
    Unmapped { channel: ChannelId, offset: u64 },
    /// Wakes a sleeping peer on another host, at the other side of a channel. The manager sends no reply.
    Ring { channel: ChannelId },
}

/// Acceptance of a caller by a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub greeting: Vec<u8>,
    /// Index of the wakeup by which the caller must wake the service.
    pub wakeup: u32,
}

/// Refusal of a caller by a service. The protocol on top of the pool, such as calls, defines `code` and `text`.
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
    /// The leased segment; its descriptor goes with the message.
    Leased(Extent),
    /// The opened channel. With it go the descriptors of the queue area and the peer's wakeups, and the descriptors that
    /// the service passed.
    Opened(OpenedChannel),
    /// Part of the listing; `next` is the index at which the next part starts.
    Listed {
        entries: Vec<ListingEntry>,
        next: Option<u64>,
    },
}

/// A channel, as one of its two sides sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedChannel {
    pub channel: ChannelId,
    pub peer: PeerProcess,
    pub queues: Extent,
    /// Index of the wakeup by which this side must wake the peer.
    pub wakeup: u32,
    /// True if the peer can be woken: either it is on this host, or both hosts have doorbells.
    pub rings: bool,
    pub greeting: Vec<u8>,
}

/// Event that the manager sends to a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A client asks this process's service for a channel. The same descriptors go with it as with [`Reply::Opened`].
    Offered { service: String, offer: OpenedChannel },
    /// The other side of a channel granted a segment; the segment's descriptor goes with the event.
    Granted { channel: ChannelId, segment: Extent, access: Access },
    /// The owner released a segment that it had granted, so offsets in it are no longer valid.
    Withdrawn { channel: ChannelId, offset: u64 },
    /// The manager asks how many bytes of the process's buffers are in use.
    Count,
    /// The peer of the channel, on another host, wakes this process.
    Rung { channel: ChannelId },
    /// The peer of the channel is gone.
    Gone { channel: ChannelId, cause: Cause },
}

/// Reason why a peer is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The peer closed the channel, or cancelled its request for it.
    Closed,
    /// The peer's process ended, or its connection to the manager broke.
    Died,
    /// The peer cannot map a segment that was granted to it.
    CannotMap,
    /// The peer's host no longer shows a heartbeat because it stopped, ended or is cut off; or the manager of that host
    /// was restarted.
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
    Quota { whose: QuotaHolder, asked_bytes: u64, held_bytes: u64, quota_bytes: u64 },
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

/// Party that a quota applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuotaHolder {
    /// One process, with all its connections together.
    Process,
    /// A user other than the manager's user, with all processes of that user together.
    User(u32),
}

impl std::fmt::Display for QuotaHolder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            QuotaHolder::Process => out.write_str("this process"),
            QuotaHolder::User(user) => write!(out, "user {user}, with all processes together,"),
        }
    }
}

/// Kind of object whose number is limited per client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limited {
    Channels,
    Services,
    Segments,
    Grants,
    Connections,
    /// Channels that clients opened to a service of this client.
    Served,
    /// All of the above together, because each of them has a record in the ledger.
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

/// State of a host among the hosts that share a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostStanding {
    /// The host shows a heartbeat: its manager serves.
    Serving,
    /// The host has shown no heartbeat for a while. It keeps its sections.
    Silent,
    /// The host was declared ended, so its sections are free.
    Ended,
    /// The host left, and holds no sections.
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
    /// The pool. `per_client_bytes` is the most memory that one client may hold.
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
        /// True while this host's manager and that host's manager can exchange messages.
        is_linked: bool,
        /// True if other hosts can wake the manager of that host.
        has_doorbell: bool,
        claimed_bytes: u64,
    },
    /// A client. `quota_used_bytes` is the memory that counts against the client's quota; it includes all connections
    /// that share this quota.
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
    /// A service of a process on another host.
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

/// Returns the preamble followed by an encoded message.
pub fn first<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(encode(message));
    bytes
}

/// Decodes the first message of a connection, after checking its preamble.
///
/// # Errors
/// Returns the version of the sender if it differs from ours, or zero if the message does not belong to this protocol.
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
/// If the bytes do not decode as that type, or bytes are left over.
pub fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, Malformed> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(Malformed),
    }
}
