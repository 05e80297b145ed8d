//! Authentication of peers: keys, encrypted connections, sealed datagrams, and limits on what one peer may hold.
//!
//! A *key folder* holds an Ed25519 key and the list of trusted keys. It has no host names, no authorities and no dates.
//! A connection uses TLS 1.3 with raw public keys on both sides (RFC 7250); each side compares the other's key with its
//! own list. Datagrams of a live rack carry an HMAC under a key that all machines of the rack share.
//!
//! | module | idea |
//! |---|---|
//! | [`folder`] | the key folder: its files and their permissions |
//! | [`fingerprint`] | the SHA-256 of a public key, as text |
//! | [`policy`] | addresses that need keys |
//! | [`tls`] | configuration of TLS: these keys, nothing else |
//! | [`wire`] | TCP connection, encrypted or plain |
//! | [`shares`] | shares of a limited amount among peers |
//! | [`datagram`] | datagrams that only a holder of the shared key can write, each accepted once |
//!
//! Bytes that a peer sends before it has proved its key are handled by `rustls` alone.
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
pub use policy::EncryptionPolicy;
pub use wire::Wire;
