//! Errors of recordings.

/// Reason why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file could not be read or written.
    #[error("recording, byte {offset}: {error}")]
    Io {
        /// Bytes before it.
        offset: u64,
        /// Answer of the system.
        error: std::io::Error,
    },
    /// The file is something else.
    #[error("not a recording of loads and stores: it does not begin with \"unracklw\"")]
    Foreign,
    /// The file is of another version.
    #[error("recording of version {found}, while this program reads version 1: record it again")]
    Version {
        /// Version in the file.
        found: u32,
    },
    /// The content makes no sense.
    #[error("recording, byte {offset}: {what}: the file is damaged, record it again")]
    Damaged {
        /// Bytes before it.
        offset: u64,
        /// Fault in words.
        what: &'static str,
    },
    /// What was to be written could not be read back.
    #[error("cannot record: {0}")]
    Refused(&'static str),
}
