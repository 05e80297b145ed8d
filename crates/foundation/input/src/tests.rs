//! Tests of input files: what is read, and what is refused.

use super::*;
use proptest::prelude::*;
use std::path::PathBuf;
use std::process::Command;

/// Folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("unrack-input-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_is_read_up_to_its_bound_and_not_beyond() {
    let folder = Folder::new("bound");
    let path = folder.0.join("a.txt");
    std::fs::write(&path, "four").unwrap();
    assert_eq!(read(&path, 4).unwrap(), b"four");
    assert_eq!(read_text(&path, 1 << 20).unwrap(), "four");
    let refused = read(&path, 3).unwrap_err().to_string();
    assert_eq!(refused, format!("{} is longer than 3 bytes, too long for what it is to be", path.display()));
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let folder = Folder::new("kinds");
    let (pipe, socket) = (folder.0.join("pipe"), folder.0.join("socket"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _bound = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let refused = |path: &Path| read(path, u64::MAX).unwrap_err().to_string();
    // The pipe has no writer: a reader that waits would wait for ever.
    assert!(refused(&pipe).ends_with("is a pipe, where a file is needed"));
    assert!(refused(&folder.0).ends_with("is a folder, where a file is needed"));
    assert!(refused(Path::new("/dev/zero")).ends_with("is a device, where a file is needed"));
    assert!(refused(&socket).starts_with("cannot read "));
    assert!(refused(&folder.0.join("absent")).starts_with("cannot read "));
}

#[test]
fn a_file_without_a_length_is_bounded_as_well() {
    assert!(!read("/proc/self/status", 1 << 20).unwrap().is_empty());
    assert!(matches!(read("/proc/self/status", 5).unwrap_err().reason, Reason::TooLong(5)));
}

#[test]
fn text_that_is_none_is_told_with_its_line() {
    let folder = Folder::new("text");
    let path = folder.0.join("a.txt");
    std::fs::write(&path, b"one\ntwo \xff\n").unwrap();
    let refused = read_text(&path, 100).unwrap_err().to_string();
    assert_eq!(refused, format!("{}:2: this line is not UTF-8 text", path.display()));
}

proptest! {
    #[test]
    fn a_quotation_is_no_wider_than_a_line(text in "\\PC{0,300}") {
        let quoted = clipped(&text);
        prop_assert!(quoted.chars().count() <= WIDTH);
        prop_assert_eq!(text.chars().count() <= WIDTH, quoted == text);
    }
}
