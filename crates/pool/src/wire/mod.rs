//! What passes between a process and the manager: messages over a Unix socket, with descriptors beside.
//!
//! A message is one packet of a `SOCK_SEQPACKET` socket. The first of each side is a preamble (magic and version)
//! followed by a [`Hello`] or the answer to it; a version that the other does not speak can so be told by
//! everybody. All after it is `postcard` of [`Ask`] and [`Tell`]. Whatever does not decode, or comes with other
//! descriptors than its kind has, ends the connection.

mod packets;

pub use packets::{Incoming, Malformed, receive, send};

use serde::{Deserialize, Serialize};
use unrack_units::Bytes;

/// The first bytes of the first message of either side.
pub const MAGIC: [u8; 8] = *b"unrackpl";
/// What this code speaks. It changes with any change of these types.
pub const VERSION: u16 = 2;
/// Bytes of the longest message.
pub const MOST_BYTES: usize = 16 * 1024;
/// Descriptors that two processes may pass each other beside a greeting.
pub const MOST_PASSED: usize = 4;
/// Descriptors beside a message at most: the manager's own, and those passed.
pub const MOST_DESCRIPTORS: usize = 8;
/// Bytes of the longest greeting, either way.
pub const MOST_GREETING: usize = 1024;
/// Bytes of the longest name of a service or a process.
pub const MOST_NAME: usize = 128;
/// Bytes of the longest reason for a refusal.
pub const MOST_REASON: usize = 512;

/// Who a process is, all the time that it is connected and if it connects again. Never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId(pub u64);

/// A pair `<client, server>`. Never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChannelId(pub u64);

/// What a process says first; beside it the descriptor of its bells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What it calls itself, for people who look.
    pub name: String,
    /// Who it was before the manager was gone.
    pub again: Option<ClientId>,
}

/// What the manager answers to a [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub you: ClientId,
    /// Bytes of the address space, a multiple of a section.
    pub space_bytes: u64,
    /// Sections that are leased at a time for small buffers, at most (K; DRack §4.2).
    pub region_sections: u32,
    /// Bytes of every queue area.
    pub queue_bytes: u64,
    /// The memory is devices, whose descriptors are beside: all of the space is mapped at once. Otherwise each
    /// segment comes with a descriptor.
    pub devices: Option<crate::interleave::Interleave>,
    /// How this memory is to be reached.
    pub mode: crate::cache_control::Mode,
}

/// Bytes of the address space that have one owner and one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extent {
    pub offset: u64,
    pub bytes: u64,
}

impl Extent {
    /// The first byte behind; extents that the manager gives do not overflow.
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    Read,
    Write,
}

/// A process, as the kernel and the manager know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    pub id: ClientId,
    /// 0: it is not on this host, and only its name is known.
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
    /// What it calls itself.
    pub name: String,
}

impl std::fmt::Display for Peer {
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// A segment of whole sections. Reply: [`Reply::Leased`], with its descriptor.
    Lease { sections: u32 },
    /// Gives a segment of one's own back, which is not mapped any more.
    Release { offset: u64 },
    /// Lets the other side of a channel map a segment of one's own. When the reply comes, the other side's
    /// [`Event::Granted`] is before anything that the manager tells it later.
    Grant { channel: ChannelId, offset: u64, access: Access },
    /// Takes a name.
    Register { service: String },
    /// Gives a name up.
    Withdraw { service: String },
    /// Asks a service for a channel, with descriptors for it beside. Reply: [`Reply::Opened`], once the service
    /// answered.
    Open { service: String, greeting: Vec<u8>, bell: u32 },
    /// Takes back an [`Open`](Request::Open) that was not answered: no channel comes of it any more.
    Abandon { number: u32 },
    /// What the service answers to [`Event::Offered`], with descriptors for the other side beside.
    Answer { channel: ChannelId, verdict: Result<Accepted, Refused> },
    /// This side has unmapped all that came by the channel.
    Close { channel: ChannelId },
    /// After the manager was gone: a segment of one's own, with its descriptor beside unless it is in a device.
    HandBack { offset: u64 },
    /// After the manager was gone: channels that this process has.
    Keep { channels: Vec<ChannelId> },
    /// That is all: what the manager thinks this process has beyond that, it does not have. What happened meanwhile
    /// is told again.
    Resumed,
    /// What there is.
    List { from: u64 },
    /// Has all processes say how much of what they hold is used.
    Count,
    /// The answer to [`Event::Count`]. Only for people who look.
    Counted { used_bytes: u64 },
    /// Nothing: the reply follows all that the manager told before.
    Sync,
    /// The process has unmapped everything and leaves.
    Leave,
    /// This side cannot map what the other granted, and has no use for the channel. It closes it when nothing of it is
    /// used any more.
    GiveUp { channel: ChannelId },
}

/// That a service takes a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub greeting: Vec<u8>,
    /// Which of the service's bells to ring.
    pub bell: u32,
}

/// Why a service does not take a caller. `code` and `text` are the protocol's above.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub code: u32,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tell {
    Reply { number: u32, outcome: Result<Reply, Denied> },
    Event(Event),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    Done,
    /// With the descriptor.
    Leased(Extent),
    /// With the descriptors of the queue area and the peer's bells, and those that the service passed.
    Opened(Opened),
    /// A part of the list; `next`: from where to ask on.
    Listed {
        entries: Vec<Listed>,
        next: Option<u64>,
    },
}

/// A channel, as one side sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    pub channel: ChannelId,
    pub peer: Peer,
    pub queues: Extent,
    /// Which of the peer's bells to ring.
    pub bell: u32,
    pub greeting: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// Somebody opens this process's service; descriptors as with [`Reply::Opened`].
    Offered { service: String, offer: Opened },
    /// The other side of a channel granted a segment; with its descriptor.
    Granted { channel: ChannelId, segment: Extent, access: Access },
    /// The owner gave back what it granted: nothing in it is meant any more.
    Withdrawn { channel: ChannelId, offset: u64 },
    /// Somebody wants to know how many bytes are used.
    Count,
    /// Nobody is at the other side of the channel any more.
    Gone { channel: ChannelId, cause: Cause },
}

/// Why a peer is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// It closed the channel, or took back its request for it.
    Closed,
    /// The process ended, or its connection to the manager did.
    Died,
    /// It cannot map what it was granted.
    CannotMap,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Cause::Closed => "closed the channel",
            Cause::Died => "died",
            Cause::CannotMap => {
                "cannot map the memory that it was granted: it has all the files open that it may (`ulimit -n`), or no memory"
            }
        })
    }
}

/// Why the manager does not do what it was asked.
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
    #[error("no service is called {0:?}: start it first (`unrack pool ls` lists those there are)")]
    NoService(String),
    #[error("the name {name:?} is taken by {by}: stop it or take another name")]
    NameTaken { name: String, by: Peer },
    #[error("a name has 1 to {MOST_NAME} visible characters")]
    BadName,
    #[error("a greeting has at most {MOST_GREETING} bytes")]
    LongGreeting,
    #[error("the service refused: {} (code {})", .0.text, .0.code)]
    Refused(Refused),
    #[error("{peer} {cause}")]
    Gone { peer: Peer, cause: Cause },
    #[error("{0} does not read what the manager tells it")]
    Slow(Peer),
    #[error("{what}: there may be {most} at most")]
    Limit { what: Limited, most: u32 },
    #[error(
        "a segment is granted either to be read or to be written, and this one was granted otherwise before"
    )]
    Sealed,
    #[error("the request names something that this process does not have")]
    NotYours,
    #[error(
        "the manager that was there before knew this process, and this one does not: it has to connect anew"
    )]
    Stranger,
    #[error(
        "{whose} may have {} of the pool and {}: {} more are too many; free what is not needed, or start the \
             manager with more --per-client",
        Bytes::new(*quota_bytes), has(*held_bytes), Bytes::new(*asked_bytes)
    )]
    Quota { whose: Whose, asked_bytes: u64, held_bytes: u64, quota_bytes: u64 },
    #[error(
        "this pool is of user {user} alone: {why}; connect as that user, or have the pool served with \
             `--backing memfd`"
    )]
    OneUser { user: u32, why: String },
}

fn has(bytes: u64) -> String {
    if bytes == 0 { "has none".into() } else { format!("has {}", Bytes::new(bytes)) }
}

/// Whose quota it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whose {
    /// The process's, with all its connections.
    Process,
    /// All processes' together of a user who is not the manager's.
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

/// A thing that each client may have a limited number of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limited {
    Channels,
    Services,
    Segments,
    Grants,
    Connections,
    /// Channels of a service.
    Served,
    /// All of the above together.
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

/// One line of what there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Listed {
    /// `per_client_bytes`: how much one client may have.
    Pool {
        capacity_bytes: u64,
        free_bytes: u64,
        backing: String,
        per_client_bytes: u64,
    },
    /// `quota_used_bytes`: what counts against its quota, with all connections that count together with it.
    Client {
        peer: Peer,
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
    Channel {
        id: ChannelId,
        service: String,
        client: ClientId,
        server: ClientId,
        open: bool,
        queues: Extent,
    },
}

/// The preamble and a message behind it.
pub fn first<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(encode(message));
    bytes
}

/// Reads a first message.
///
/// # Errors
/// The version of the other side, if it is another, or zero if it speaks something else altogether.
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

pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    postcard::to_allocvec(message).expect("these types always encode")
}

/// # Errors
/// If it is not that type, or there is more.
pub fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, Malformed> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(Malformed),
    }
}
