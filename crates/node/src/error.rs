//! Reasons why a node could not start.

/// Reason why a node could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {error}")]
    Listen { address: String, error: std::io::Error },
    #[error("a capacity of {capacity} holds no page: {least} are needed at least")]
    Capacity { capacity: unrack_units::Bytes, least: unrack_units::Bytes },
    #[error("a share of {share} for each client holds no page: {least} are needed at least")]
    Share { share: unrack_units::Bytes, least: unrack_units::Bytes },
    #[error("a client cannot hold {share} of {capacity}: give --per-client a share of it, or less")]
    LargeShare { share: unrack_units::Bytes, capacity: unrack_units::Bytes },
    #[error(transparent)]
    Keys(#[from] unrack_keys::Error),
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
}
