//! Errors of reading and writing recordings.

/// Reason why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file could not be read or written.
    #[error("recording, byte {offset}: {error}")]
    Io {
        /// Offset in the file, in bytes.
        offset: u64,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The file is not a recording.
    #[error("not a recording of loads and stores: it does not begin with \"unracklw\"")]
    Foreign,
    /// The file has another version of the format.
    #[error(
        "recording of version {found}, while this program reads version {}: record it again",
        super::VERSION
    )]
    Version {
        /// Version of the file.
        found: u32,
    },
    /// The content is damaged.
    #[error("recording, byte {offset}: {what}: the file is damaged, record it again")]
    Damaged {
        /// Offset in the file, in bytes.
        offset: u64,
        /// Description of the damage.
        what: &'static str,
    },
    /// The writer refused data because they are inconsistent, so that a reader could not read them back.
    #[error("cannot record: {0}")]
    Refused(&'static str),
}
