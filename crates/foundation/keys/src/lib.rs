//! Authentication of peers: keys, encrypted connections, authenticated datagrams, and limits on the resources of each peer.
//!
//! A *key folder* contains an Ed25519 key and the list of trusted keys. It contains no host names, authorities or dates. A connection uses
//! TLS 1.3 with raw public keys in both directions (RFC 7250), and each end looks the other end's key up in its own list. Datagrams of a
//! live rack carry an HMAC with a key that all machines of the rack share.
//!
//! | module | idea |
//! |---|---|
//! | [`folder`] | the key folder: its files and their permissions |
//! | [`fingerprint`] | the SHA-256 of a public key, as text |
//! | [`policy`] | rule that decides which addresses need keys |
//! | [`tls`] | configuration of TLS: only these keys are accepted |
//! | [`wire`] | TCP connection, encrypted or plain |
//! | [`shares`] | shares of a limited amount among peers |
//! | [`datagram`] | datagrams that only a holder of the shared key can create, and that are accepted only once |
//!
//! Bytes that a peer sends before it has proved its key are parsed only by `rustls`.
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
