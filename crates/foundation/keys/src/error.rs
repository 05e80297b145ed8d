//! Errors of keys. Each message includes the remedy.

use crate::Fingerprint;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why a key cannot be used, or a connection cannot be encrypted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: io::Error },
    #[error("there is no key in {0}: `unrack keys make {0}` makes one", folder.display())]
    NoKey { folder: PathBuf },
    #[error("{} has a key already, which is kept: use another folder for a new one", folder.display())]
    KeyIsThere { folder: PathBuf },
    #[error("{0} can be {what} by others: `chmod {mode} {0}` makes it yours alone", path.display())]
    NotPrivate { path: PathBuf, what: &'static str, mode: &'static str },
    #[error("{} belongs to another user: use a key folder of your own", path.display())]
    Foreign { path: PathBuf },
    #[error("{}: {why}", path.display())]
    Malformed { path: PathBuf, why: String },
    #[error(
        "{address} is beyond this machine, where connections need keys: {cause}; or use {insecure} to connect \
         without encryption and proof of identity"
    )]
    Needed { address: String, cause: Box<Error>, insecure: &'static str },
    #[error(
        "its key {theirs} is not trusted here: if it is the right one, run `unrack keys trust {theirs} --keys {}`",
        folder.display()
    )]
    Untrusted { theirs: Fingerprint, folder: PathBuf },
    #[error("it does not trust this key: run `unrack keys trust {ours}` there")]
    Refused { ours: Fingerprint },
    #[error(
        "bytes of the encrypted connection were changed on the way, and are not used: connect again ({0})"
    )]
    Changed(String),
    #[error("it does not speak TLS: it listens without keys, or is another service ({0})")]
    NotTls(String),
    #[error(transparent)]
    Broken(#[from] io::Error),
}

impl Error {
    /// Returns a function that converts an I/O error into an error of the file `path`.
    pub(crate) fn file(path: &Path) -> impl Fn(io::Error) -> Error {
        let path = path.to_path_buf();
        move |why| Error::File { path: path.clone(), why }
    }

    /// Returns whether a later attempt may succeed, because the connection broke without a refusal by the peer.
    pub fn may_pass(&self) -> bool {
        matches!(self, Error::Broken(_) | Error::Changed(_))
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error {
            Error::Broken(error) => error,
            Error::Changed(_) => io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
            error => io::Error::new(io::ErrorKind::PermissionDenied, error.to_string()),
        }
    }
}
