//! Output targets of results. A file is replaced in one step. A device or a pipe, such as `/dev/stdout`, must never be replaced, so it is
//! written to.

use crate::failure::CommandFailure;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Output target. Symbolic links are followed, so that the target of a link is replaced and not the link.
pub(super) enum WriteTarget {
    File(PathBuf),
    /// A device or a pipe. It is opened before the program starts, because standard output then belongs to the program.
    Stream(PathBuf, File),
}

impl WriteTarget {
    /// Verifies before the run that the target can be written, so that an hour of work cannot be lost.
    pub(super) fn check(path: &Path) -> Result<WriteTarget, CommandFailure> {
        let refuse =
            |why: &dyn std::fmt::Display| CommandFailure::Usage(format!("{}: {why}", path.display()));
        match path.metadata() {
            Ok(meta) if meta.is_dir() => Err(refuse(&"is a folder: name a file in it")),
            Ok(meta) if !meta.is_file() => {
                let stream = File::options().write(true).open(path).map_err(|why| refuse(&why))?;
                Ok(WriteTarget::Stream(path.into(), stream))
            }
            found => {
                let real = found.and_then(|_| path.canonicalize()).unwrap_or_else(|_| path.into());
                unrack_record::AtomicFile::create(&real)
                    .map_err(|why| CommandFailure::Usage(why.to_string()))?;
                Ok(WriteTarget::File(real))
            }
        }
    }

    /// Verifies a target that is written piece by piece. It must be a regular file.
    pub(super) fn check_file(path: &Path) -> Result<PathBuf, CommandFailure> {
        match WriteTarget::check(path)? {
            WriteTarget::File(path) => Ok(path),
            WriteTarget::Stream(path, _) => Err(CommandFailure::Usage(format!(
                "{} is no regular file, which a Parquet table needs: name a file",
                path.display()
            ))),
        }
    }

    /// Writes a value as JSON.
    pub(super) fn write_json(&self, value: &impl Serialize) -> Result<(), CommandFailure> {
        match self {
            WriteTarget::File(path) => Ok(unrack_record::write_json(path, value)?),
            WriteTarget::Stream(path, stream) => write_stream(stream, value)
                .map_err(|why| CommandFailure::Failed(format!("cannot write {}: {why}", path.display()))),
        }
    }
}

fn write_stream(mut stream: &File, value: &impl Serialize) -> std::io::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    stream.write_all(&text)
}
