//! Who is at the other end: keys of peers, connections that are encrypted to them, datagrams with a keyed hash, and what one
//! peer may hold.
//!
//! A *key folder* holds an Ed25519 key and the list of keys that are trusted: no names, no authority, no dates. A
//! connection is TLS 1.3 with raw public keys on both sides (RFC 7250), each compared with the other's list. Datagrams of a
//! live rack carry an HMAC by a key that all machines of the rack share.
//!
//! | module | idea |
//! |---|---|
//! | [`folder`] | the key folder: its files, and who may read them |
//! | [`fingerprint`] | the SHA-256 of a public key, as text |
//! | [`policy`] | which addresses need keys |
//! | [`tls`] | what TLS is told: these keys, nothing else |
//! | [`wire`] | a TCP connection that is encrypted, or is not |
//! | [`shares`] | what all peers may hold of something, and each of them |
//! | [`datagram`] | datagrams that only a holder of the shared key can write, each taken once |
//!
//! Whatever a peer sends before it has proved its key is handled by `rustls` alone.
#![forbid(unsafe_code)]

pub mod datagram;
mod error;
pub mod fingerprint;
pub mod folder;
pub mod policy;
mod private;
pub mod shares;
pub mod tls;
pub mod wire;

pub use error::Error;
pub use fingerprint::Fingerprint;
pub use folder::Keys;
pub use policy::Policy;
pub use wire::Wire;
