//! Frames survive writing and reading, and damaged ones are errors.

use super::*;
use proptest::prelude::*;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

fn frames() -> impl Strategy<Value = Frame> {
    let stream = || prop::sample::select(Stream::ALL.to_vec());
    let program =
        (prop::collection::vec(bytes(), 1..4), prop::collection::vec((bytes(), bytes()), 0..4), bytes())
            .prop_map(|(words, variables, folder)| Program { words, variables, folder });
    let outcome = prop_oneof![
        any::<u8>().prop_map(GuestExit::Exited),
        any::<u8>().prop_map(GuestExit::Signalled),
        (any::<u8>(), ".{0,20}").prop_map(|(status, why)| GuestExit::NotStarted { status, why }),
    ];
    prop_oneof![
        any::<u32>().prop_map(|version| Frame::Hello { version }),
        (any::<u32>(), program).prop_map(|(program, it)| Frame::Start { program, it }),
        (any::<u32>(), stream(), bytes()).prop_map(|(program, stream, bytes)| Frame::Bytes {
            program,
            stream,
            bytes
        }),
        (any::<u32>(), stream()).prop_map(|(program, stream)| Frame::Took { program, stream }),
        (any::<u32>(), any::<u8>()).prop_map(|(program, signal)| Frame::Signal { program, signal }),
        any::<u32>().prop_map(|program| Frame::Leave { program }),
        (any::<u32>(), outcome).prop_map(|(program, outcome)| Frame::Ended { program, outcome }),
    ]
}

proptest! {
    #[test]
    fn frames_read_as_they_were_written(frames in prop::collection::vec(frames(), 0..5)) {
        let mut stream = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut stream).unwrap());
        let mut stream = &stream[..];
        for frame in &frames {
            let read = Frame::read(&mut stream).unwrap();
            prop_assert_eq!(read.as_ref(), Some(frame));
        }
        prop_assert!(Frame::read(&mut stream).unwrap().is_none());
    }

    #[test]
    fn damaged_frames_are_errors_or_frames(frame in frames(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let mut stream = frame.to_bytes();
        let place = at.index(stream.len());
        stream[place] = byte;
        stream.truncate(cut.index(stream.len()) + 1);
        let mut stream = &stream[..];
        while let Ok(Some(_)) = Frame::read(&mut stream) {}
    }

    #[test]
    fn any_bytes_are_errors_or_frames(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut stream = &bytes[..];
        while let Ok(Some(_)) = Frame::read(&mut stream) {}
    }
}

#[test]
fn a_length_is_refused_before_it_is_allocated() {
    let stream = [&[2u8, 1, 0, 0, 0][..], &u32::MAX.to_le_bytes()].concat();
    let error = Frame::read(&mut &stream[..]).unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
}

#[test]
fn a_command_line_that_is_too_long_is_not_sent() {
    let it = Program { words: vec![vec![b'a'; MOST_PAYLOAD]], ..Program::default() };
    let mut stream = Vec::new();
    assert!(Frame::Start { program: 1, it }.write(&mut stream).unwrap_err().to_string().contains("4 MiB"));
    assert!(stream.is_empty());
}

/// Layout of a frame: an agent of another build reads its version.
#[test]
fn each_field_has_its_place() {
    let written = |frame: Frame| {
        let mut bytes = Vec::new();
        frame.write(&mut bytes).unwrap();
        bytes
    };
    assert_eq!(written(Frame::Hello { version: 0x0102 }), b"\0\0\0\0\0\x04\0\0\0\x02\x01\0\0");
    let bytes = Frame::Bytes { program: 0x0304, stream: Stream::Errors, bytes: b"abc".to_vec() };
    assert_eq!(written(bytes), b"\x02\x04\x03\0\0\x04\0\0\0\x02abc");
}
