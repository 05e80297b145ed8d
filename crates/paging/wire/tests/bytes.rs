//! Random bytes: what is decoded is encoded again as the same bytes.

use proptest::prelude::*;
use unrack_wire::{
    GreetingStatus, HEADER, HELLO, Header, Hello, MAGIC, MOST_IDS, MOST_PAGES, PageTransport, Verb, WELCOME,
    WELCOME_HEAD, Welcome,
};

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

/// Layout of all messages: another build reads them.
#[test]
fn each_field_has_its_place() {
    let mut hello = [0; HELLO];
    hello[..24].copy_from_slice(b"unrackmn\x02\0\x01\0\0\x10\0\0\x08\x07\x06\x05\x04\x03\x02\x01");
    assert_eq!(Hello::new(PageTransport::Shared, 0x0102_0304_0506_0708).encode(), hello);

    let mut welcome = [0; WELCOME];
    welcome[..60].copy_from_slice(
        b"unrackmn\x03\0\x06\0\x40\0\0\0\x11\0\0\0\0\0\0\0\x12\0\0\0\0\0\0\x80\x13\x01\0\0\x14\x02\0\0\
          \x15\0\0\0\0\0\x01\0\x16\x03\0\0\x17\0\0\0\0\0\0\x02",
    );
    let told = Welcome {
        version: 3,
        status: GreetingStatus::OverShare,
        most_pages: 64,
        capacity: 0x11,
        free: 0x8000_0000_0000_0012,
        most_ids: 0x113,
        extent_pages: 0x214,
        share: 0x0001_0000_0000_0015,
        silence_ms: 0x316,
        identity: 0x0200_0000_0000_0017,
    };
    assert_eq!(told.encode(), welcome);
    assert_eq!(Welcome::version(welcome[..WELCOME_HEAD].try_into().unwrap()), Ok(3));

    let header = Header { detail: 0x0403, ..Header::request(Verb::Load, 0x0102_0304, 0x0506, 0x0708_090A) };
    let bytes = *b"\x02\0\x06\x05\x04\x03\x02\x01\x0a\x09\x08\x07\x03\x04\0\0";
    assert_eq!(header.encode(), bytes);
    assert_eq!(header.answer(1).encode()[0], 0x82);
}
