//! Hosts that share one device: which host has which section, which hosts serve, and messages between their managers.
//!
//! A host is a kernel with its own caches. Hosts agree through the device alone: each host writes only its record, and
//! reads the records of the other hosts through [cache control](crate::cache_control). `docs/decisions/0023-hosts.md`
//! states what happens when a host stops, ends, or comes back.
//!
//! | module | idea |
//! |---|---|
//! | [`layout`] | superblock and records: offsets, version, checksum |
//! | [`claims`] | rules by which a host takes and gives up a section |
//! | [`records`] | the records on a mapped device |
//! | [`member`] | this host: joins, shows a heartbeat, claims sections |
//! | [`superblock`] | writing and checking of superblocks |
//! | [`link`] | messages between the managers of two hosts |

mod claims;
mod layout;
mod link;
mod member;
#[cfg(all(test, not(loom)))]
mod model;
mod records;
mod superblock;

pub(crate) use claims::Host;
pub use layout::{MOST_HOSTS, Superblock, Unusable};
pub(crate) use link::{Happened, Link, MOST_MESSAGE};
pub use member::CannotJoin;
pub(crate) use member::{HostIdentity, HostRecord, Membership, Standing};
pub(crate) use superblock::{find_serving, random_identity, read_superblock, write_records};
