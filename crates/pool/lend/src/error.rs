//! Reasons why buffers cannot be passed.

use unrack_pool::client;

/// Reason why a link or a buffer is not available.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Pool(#[from] client::Error),
    #[error("{peer} serves {service:?} with another protocol: name a service that lends buffers")]
    Protocol { peer: String, service: String },
    #[error(
        "{peer} lends no {bytes} bytes at {reference:#x} for this use: each reference is received once, by the link that it was lent \
         by, as readable or writable as it was taken"
    )]
    NotLent { peer: String, reference: u64, bytes: u64 },
    #[error(
        "the buffer belongs to another endpoint: take it from the endpoint of the link that it is lent by"
    )]
    OtherEndpoint,
    #[error("cannot make sockets for a link: {0}")]
    Socket(std::io::Error),
}

impl From<rustix::io::Errno> for Error {
    fn from(error: rustix::io::Errno) -> Error {
        Error::Socket(error.into())
    }
}
