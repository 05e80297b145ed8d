//! Random bytes: what is decoded is encoded again as the same bytes.

use proptest::prelude::*;
use unrack_wire::{HEADER, HELLO, Header, Hello, MAGIC, MOST_IDS, MOST_PAGES, Verb, WELCOME, Welcome};

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(bytes in any::<[u8; WELCOME]>(), magic: bool) {
        let mut bytes = bytes;
        if magic {
            bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        }
        if let Ok(header) = Header::decode(&bytes[8..8 + HEADER].try_into().unwrap()) {
            prop_assert_eq!(&header.encode()[..], &bytes[8..8 + HEADER]);
            if header.check_request().is_ok() && !matches!(header.verb, Verb::Grant | Verb::Ping) {
                prop_assert!(header.id as u64 + header.count as u64 <= MOST_IDS as u64);
            }
        }
        if let Ok(hello) = Hello::decode(&bytes[..HELLO].try_into().unwrap()) {
            prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        }
        if let Ok(welcome) = Welcome::decode(&bytes) {
            prop_assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
        }
    }
}

#[test]
fn replies_and_requests_are_told_apart() {
    let request = Header::request(Verb::Store, 7, 3, 9);
    assert_eq!(request.check_request(), Ok(()));
    assert!(request.answer(3).check_request().is_err());
    assert_eq!(Header::decode(&request.answer(3).encode()), Ok(request.answer(3)));
    assert!(Header { count: 0, ..request }.check_request().is_err());
    assert!(Header { count: MOST_PAGES as u16 + 1, ..request }.check_request().is_err());
    assert!(Header { id: MOST_IDS - 2, ..request }.check_request().is_err());
}
