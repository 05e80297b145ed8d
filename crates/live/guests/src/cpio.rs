//! Archives in cpio's format `newc`. The kernel unpacks such an archive as its first file system.

use ::cpio::newc::Builder;
use std::io::Write;

/// Archive under construction.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;
/// Name of the entry that ends an archive.
const END: &str = "TRAILER!!!";

impl Archive {
    /// Adds a folder. Its parent folders must have been added before.
    pub(crate) fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, &[]);
    }

    /// Adds an executable file.
    pub(crate) fn program(&mut self, path: &str, contents: &[u8]) {
        self.entry(path, PROGRAM, contents);
    }

    /// Adds a file.
    pub(crate) fn file(&mut self, path: &str, contents: &[u8]) {
        self.entry(path, FILE, contents);
    }

    /// Ends the archive and returns its bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry(END, 0, &[]);
        self.bytes
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// If `contents` has 4 GiB or more, which the format cannot represent.
    fn entry(&mut self, path: &str, mode: u32, contents: &[u8]) {
        self.entries += 1;
        let length = u32::try_from(contents.len()).expect("a file of less than 4 GiB");
        let links = if mode == FOLDER { 2 } else { 1 };
        let header = Builder::new(path).ino(self.entries).mode(mode).nlink(links);
        let mut entry = header.write(&mut self.bytes, length);
        let written = entry.write_all(contents).and_then(|()| entry.finish());
        written.expect("memory takes what fits the length");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};
    use unrack_testing::TestFolder;

    #[test]
    fn an_entry_is_laid_out_as_the_kernel_reads_it() {
        let mut archive = Archive::default();
        archive.file("abc", b"hello");
        let bytes = archive.finish();
        let header = "07070100000001000081a400000000000000000000000100000000000000050000000000000000000000000000000000000004\
                      00000000";
        assert_eq!(&bytes[..110], header.as_bytes());
        assert_eq!(&bytes[110..124], b"abc\0\0\0hello\0\0\0");
        assert_eq!(&bytes[124..130], b"070701");
        assert!(bytes.len().is_multiple_of(4) && bytes[124 + 110..].starts_with(b"TRAILER!!!\0"));
    }

    #[test]
    fn busybox_unpacks_an_archive() {
        let mut archive = Archive::default();
        archive.folder("deep");
        archive.program("deep/run", b"#!/bin/sh\n");
        archive.file("empty", b"");
        let folder = TestFolder::new("cpio");
        let mut command = Command::new("busybox");
        command.args(["cpio", "-i"]).current_dir(&*folder).stdin(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else {
            return unrack_testing::skip(unrack_testing::TestRequirement::Guests, "busybox is not installed");
        };
        child.stdin.take().expect("it is piped").write_all(&archive.finish()).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(std::fs::read(folder.join("deep/run")).unwrap(), b"#!/bin/sh\n");
        assert_eq!(folder.join("deep/run").metadata().unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(folder.join("empty").metadata().unwrap().len(), 0);
    }
}
