//! Random tests of a session against a model of it: a call runs once, and repeated answers are the same.

use super::Notice;
use super::session::{Session, TcpSessionError, body_of};
use crate::Method;
use crate::ends::is_newer;
use crate::queue::entry::{Answer, EntryStatus, GENERATIONS, Kind, Request};
use crate::server::methods::{Handler, Methods, PartSource};
use crate::server::{Call, ClientContext};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use unrack_keys::shares::{Peer as Somebody, PeerShares};
use unrack_pool::wire::{ClientId, PeerProcess};

const LINES: u16 = 4;
const LONGEST: usize = if cfg!(miri) { 20 } else { 80 };

#[derive(Debug, Clone)]
enum Step {
    /// Request whose generation is its slot's generation plus this number.
    Call(Request, u32),
    Received(u16, u32),
}

fn slot() -> impl Strategy<Value = u16> {
    // Rarely a slot that does not exist, which ends the session.
    prop_oneof![30 => 0..LINES, 1 => LINES..1024]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![
        4 => Just(Kind::Call), 1 => Just(Kind::OneWay), 2 => Just(Kind::Open), 4 => Just(Kind::Next),
        1 => Just(Kind::Close)
    ];
    let method = prop_oneof![
        4 => Just(Method::named("count").0), 2 => Just(Method::named("parts").0),
        1 => Just(Method::named("panic").0), 4 => 0..u32::from(LINES), 1 => any::<u32>(),
    ];
    let bytes = || prop_oneof![8 => 0u32..100, 1 => 0u32..200_000];
    let ahead = prop_oneof![20 => Just(1), 4 => Just(0), 2 => 2u32..9, 1 => 0..GENERATIONS];
    let call = (kind, slot(), method, bytes(), bytes(), ahead).prop_map(
        |(kind, slot, method, length, capacity, ahead)| {
            let request =
                Request { kind, connection: 0, slot, generation: 0, offset: 0, method, length, capacity };
            Step::Call(request, ahead)
        },
    );
    let received = (slot(), 0u32..3).prop_map(|(slot, behind)| Step::Received(slot, behind));
    prop::collection::vec(prop_oneof![6 => call, 1 => received], 1..LONGEST)
}

fn methods(ran: &Arc<AtomicU32>) -> Methods {
    let mut methods = Methods::default();
    let number = {
        let ran = ran.clone();
        move |call: &mut Call<'_>| {
            let number = ran.fetch_add(1, Ordering::Relaxed) + 1;
            let bytes = call.room().min(4);
            call.answer(bytes)?.copy_from(&number.to_le_bytes()[..bytes]);
            Ok(())
        }
    };
    let part = number.clone();
    let parts = move |_: &mut Call<'_>| {
        let (part, mut left) = (part.clone(), 3);
        let source = move |call: &mut Call<'_>| {
            left -= 1;
            part(call).map(|()| left > 0)
        };
        Ok(Box::new(source) as PartSource)
    };
    methods.add("count", Handler::Plain(Box::new(number)));
    methods.add("parts", Handler::Stream(Box::new(parts)));
    methods.add("panic", Handler::Plain(Box::new(|_| std::panic::resume_unwind(Box::new("as asked")))));
    methods.finish().expect("their numbers differ")
}

/// Model of a slot.
#[derive(Default, Clone)]
struct Seen {
    generation: u32,
    answered: Option<(Answer, Vec<u8>)>,
}

fn ask(
    session: &mut Session,
    request: Request,
    methods: &Methods,
) -> Result<(Answer, Vec<u8>), TcpSessionError> {
    let mut room = session.room(&request)?;
    let all = request.length.max(request.capacity) as usize;
    assert!(room.pay(all).is_ok(), "there is room for all of this");
    let bytes = Arc::get_mut(&mut room.block).expect("nobody else has it");
    assert!(bytes.capacity() >= all);
    bytes.bytes_mut(request.length as usize).fill(0x5a);
    session.call(request, room, methods).map(|(answer, body)| (answer, body.to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 300 }))]

    #[test]
    fn a_call_runs_once_whatever_is_asked(steps in steps()) {
        let ran = Arc::new(AtomicU32::new(0));
        let methods = methods(&ran);
        let peer = PeerProcess { id: ClientId(0), pid: 0, uid: 0, gid: 0, name: "model".into() };
        let account = PeerShares::new(1 << 30, 1 << 30).account(Somebody::User(1));
        let mut session = Session::new(ClientContext::new(peer, 7), LINES.into(), &account).unwrap();
        let mut all = vec![Seen::default(); LINES.into()];
        for step in steps {
            let before = ran.load(Ordering::Relaxed);
            match step {
                Step::Received(slot, behind) => {
                    let seen = all.get_mut(usize::from(slot));
                    let generation = seen.as_ref().map_or(0, |seen| seen.generation.saturating_sub(behind));
                    let noticed = session.notice(Notice::Received { slot, generation });
                    let Some(seen) = seen else {
                        prop_assert_eq!(noticed, Err(TcpSessionError));
                        return Ok(());
                    };
                    prop_assert_eq!(noticed, Ok(true));
                    if generation == seen.generation {
                        seen.answered = None;
                    }
                }
                Step::Call(request, ahead) => {
                    let Some(seen) = all.get_mut(usize::from(request.slot)) else {
                        prop_assert_eq!(ask(&mut session, request, &methods), Err(TcpSessionError));
                        return Ok(());
                    };
                    let generation = (seen.generation + ahead) % GENERATIONS;
                    let request = Request { generation, ..request };
                    let answered = ask(&mut session, request, &methods);
                    if generation == seen.generation || !is_newer(generation, seen.generation) {
                        let again = (generation == seen.generation).then(|| seen.answered.clone()).flatten();
                        prop_assert_eq!(&answered, &again.ok_or(TcpSessionError));
                        prop_assert_eq!(ran.load(Ordering::Relaxed), before, "it ran again");
                        if answered.is_err() {
                            return Ok(());
                        }
                        continue;
                    }
                    let Ok((answer, body)) = answered else {
                        prop_assert!(false, "a new call is answered");
                        unreachable!();
                    };
                    prop_assert_eq!((answer.slot, answer.generation), (request.slot, generation));
                    prop_assert!(body.len() == body_of(&answer) && body.len() <= request.capacity as usize);
                    prop_assert!(ran.load(Ordering::Relaxed) <= before + 1);
                    if ran.load(Ordering::Relaxed) > before {
                        prop_assert!(matches!(answer.status, EntryStatus::DONE | EntryStatus::MORE));
                        let number = (before + 1).to_le_bytes();
                        prop_assert_eq!(&body[..], &number[..body.len()], "its own answer");
                    }
                    *seen = Seen { generation, answered: Some((answer, body)) };
                }
            }
        }
    }
}
