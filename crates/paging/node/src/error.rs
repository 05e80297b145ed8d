//! Reasons why a node could not start.

/// Reason why a node could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {error}")]
    Listen { address: String, error: std::io::Error },
    #[error("a capacity of {capacity} holds no page: give at least {least}")]
    Capacity { capacity: unrack_units::Bytes, least: unrack_units::Bytes },
    #[error("a share of {share} for each client holds no page: give at least {least}")]
    Share { share: unrack_units::Bytes, least: unrack_units::Bytes },
    #[error("a client cannot hold {share} of a capacity of {capacity}: give a smaller --per-client")]
    LargeShare { share: unrack_units::Bytes, capacity: unrack_units::Bytes },
    #[error(transparent)]
    Keys(#[from] unrack_keys::Error),
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
}
