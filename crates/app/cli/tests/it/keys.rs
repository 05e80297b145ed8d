//! `unrack keys`: key folders and trusted keys.

use crate::desk::Desk;
use std::os::unix::fs::MetadataExt;

#[test]
fn a_key_is_made_shown_and_never_overwritten() {
    let desk = Desk::new("keys");
    let folder = desk.path("keys");
    let made = desk.done(&["keys", "make", &folder]);
    assert!(made.starts_with("sha256:") && made.trim().len() == 7 + 64, "{made}");
    assert_eq!(std::fs::metadata(desk.path("keys/key.pem")).unwrap().mode() & 0o777, 0o600);
    assert!(desk.refused(2, &["keys", "make", &folder]).contains("which is kept"));
    let other = format!("sha256:{}", "5a".repeat(32));
    desk.done(&["keys", "trust", &other, "--name", "node 1", "--keys", &folder]);
    assert_eq!(desk.done(&["keys", "show", &folder]), format!("{made}trusts {other} node 1\n"));
    let shown: serde_json::Value =
        serde_json::from_str(&desk.done(&["keys", "show", &folder, "--json"])).unwrap();
    assert_eq!((shown["key"].as_str(), &shown["trusted"][0]["name"]), (Some(made.trim()), &"node 1".into()));
    desk.done(&["keys", "distrust", &other, "--keys", &folder]);
    assert_eq!(desk.done(&["keys", "show", &folder]), made);
    assert!(desk.refused(2, &["keys", "distrust", &other, "--keys", &folder]).contains("not on the list"));
    assert!(desk.refused(2, &["keys", "trust", "sha256:12", "--keys", &folder]).contains("64 hexadecimal"));
    assert!(
        desk.refused(2, &["keys", "trust", &other, "--name", "a\nb", "--keys", &folder]).contains("one line")
    );
    assert!(desk.refused(2, &["keys", "show", &desk.path("none")]).contains("unrack keys make"));
}

#[test]
fn a_shared_key_is_private_and_never_overwritten() {
    let desk = Desk::new("shared-key");
    let file = desk.path("rack.key");
    desk.done(&["keys", "shared", &file]);
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let before = desk.bytes("rack.key");
    assert!(desk.refused(2, &["keys", "shared", &file]).contains("exists"));
    assert_eq!(desk.bytes("rack.key"), before);
}
