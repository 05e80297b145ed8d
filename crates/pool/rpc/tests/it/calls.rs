//! Calls between two sides that share nothing but a pool, in every kind of memory and every way of waiting.

use crate::common::{Pool, modes, serve};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use unrack_rpc::client::CallWindow;
use unrack_rpc::listing::ServiceListing;
use unrack_rpc::{Client, EntryStatus, Error, WaitPolicy, client, server};

fn everywhere(test: impl Fn(&Pool, &Client)) {
    for mode in modes() {
        for (waiting, workers) in
            [(WaitPolicy::Adaptive, 0), (WaitPolicy::Sleep, 0), (WaitPolicy::Adaptive, 2)]
        {
            let pool = Pool::new(mode);
            let _serving = serve(&pool.socket(), server::Options { waiting, workers, ..Default::default() });
            let client = pool.client(client::Options { waiting, ..client::Options::default() });
            test(&pool, &client);
        }
    }
}

fn sum(client: &Client, words: &[u64]) -> u64 {
    let mut request = client.request(words.len() * 8).expect("a buffer");
    for (at, word) in words.iter().enumerate() {
        request.body().put(at * 8, *word).unwrap();
    }
    request.call("sum").expect("an answer").body().get(0).unwrap()
}

#[test]
fn calls_are_answered() {
    everywhere(|_, client| {
        for length in [1, 7, 8, 9, 100, 1000] {
            let words: Vec<u64> = (0..length).map(|at| at * at).collect();
            assert_eq!(sum(client, &words), words.iter().sum::<u64>());
        }
        assert_eq!(client.request(0).unwrap().call("echo").unwrap().body().len(), 0);
        assert!(client.peer().is_far() || client.peer().pid == std::process::id());
    });
}

/// Not in all tests: they run in parallel, and spinning threads keep others from running.
#[test]
fn those_who_spin_are_answered_too() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let waiting = WaitPolicy::Spin;
        let _serving = serve(&pool.socket(), server::Options { waiting, ..server::Options::default() });
        let client = pool.client(client::Options { waiting, ..client::Options::default() });
        (0..100).for_each(|number| assert_eq!(sum(&client, &[number, 1]), number + 1));
    }
}

#[test]
fn what_was_written_comes_back_whole() {
    everywhere(|_, client| {
        for bytes in [1, 63, 64, 65, 4096, 100_000, 3 << 20] {
            let pattern: Vec<u8> = (0..bytes).map(|at| (at * 31 % 251) as u8).collect();
            let mut request = client.request(bytes).unwrap();
            request.body().copy_from(&pattern);
            assert_eq!(request.call("echo").unwrap().body().to_vec(), pattern);
        }
    });
}

#[test]
fn a_window_of_calls_is_under_way() {
    everywhere(|_, client| {
        let mut pending = VecDeque::new();
        for number in 0..500u64 {
            let mut request = client.request(16).unwrap();
            request.body().put(0, [number, 1]).unwrap();
            pending.push_back((number, request.start("sum").unwrap()));
            if pending.len() > 16 {
                let (number, call) = pending.pop_front().unwrap();
                assert_eq!(call.wait().unwrap().body().get::<u64>(0).unwrap(), number + 1);
            }
        }
        for (number, call) in pending {
            assert_eq!(call.wait().unwrap().body().get::<u64>(0).unwrap(), number + 1);
        }
    });
}

#[test]
fn threads_share_a_client() {
    everywhere(|_, client| {
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                scope.spawn(move || {
                    let own = client.connection();
                    for number in 0..50 {
                        let client = if number % 2 == 0 { client } else { &own };
                        assert_eq!(sum(client, &[thread, number]), thread + number);
                    }
                });
            }
        });
    });
}

/// A thread that waits for room goes on when another is done with its call, also if nothing else is under way.
#[test]
fn threads_share_a_narrow_window() {
    everywhere(|pool, _| {
        let narrow = pool.client(client::Options { window: CallWindow::Fixed(0), ..Default::default() });
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let narrow = &narrow;
                scope.spawn(move || {
                    (0..50).for_each(|number| assert_eq!(sum(narrow, &[thread, number]), thread + number));
                });
            }
        });
        let held: Vec<_> = (0..narrow.slots()).map(|_| narrow.request(8).unwrap()).collect();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| sum(&narrow, &[1, 2]));
            std::thread::sleep(Duration::from_millis(20));
            drop(held);
            assert_eq!(waits.join().unwrap(), 3);
        });
    });
}

#[test]
fn errors_say_what_is_wrong() {
    everywhere(|_, client| {
        let call = |method: &str| client.request(8).unwrap().call(method).map(drop);
        assert!(matches!(call("nothing"), Err(Error::UnknownMethod { .. })));
        assert!(matches!(call("panic"), Err(Error::Failed { .. })));
        let refused =
            |status| matches!(call("refuse"), Err(Error::Refused { status: said, .. }) if said == status);
        assert!(refused(EntryStatus(EntryStatus::SERVICE + 7)));
        let mut request = client.request_with_room(8, 100).unwrap();
        request.body().put(0, 101u64).unwrap();
        assert!(matches!(request.call("fill"), Err(Error::NoRoom { needed: 101, room: 100, .. })));
        let mut request = client.request_with_room(8, 101).unwrap();
        request.body().put(0, 101u64).unwrap();
        assert_eq!(request.call("fill").unwrap().body().to_vec(), [0x5a; 101]);
        assert!(matches!(client.request(usize::MAX / 2), Err(Error::TooLong { .. })));
        assert_eq!(sum(client, &[1, 2]), 3, "it goes on after all of these");
    });
}

#[test]
fn a_stream_has_all_its_parts_in_order() {
    everywhere(|_, client| {
        for (count, ahead) in [(1u64, 0), (2, 0), (100, 0), (100, 4), (3, 8)] {
            let mut request = client.request(8).unwrap();
            request.body().put(0, count).unwrap();
            let mut stream = request.stream("count", ahead).unwrap();
            let mut seen = Vec::new();
            while let Some(part) = stream.next_part().unwrap() {
                seen.push(part.body().get::<u64>(0).unwrap());
            }
            assert_eq!(seen, (0..count).collect::<Vec<_>>());
        }
        // A stream that is dropped early leaves nothing behind.
        for _ in 0..300 {
            let mut request = client.request(8).unwrap();
            request.body().put(0, 1000u64).unwrap();
            let mut stream = request.stream("count", 2).unwrap();
            stream.next_part().unwrap().expect("a part");
        }
        assert_eq!(sum(client, &[4, 5]), 9);
    });
}

#[test]
fn one_way_calls_and_cancelled_calls_give_their_buffers_back() {
    everywhere(|_, client| {
        for number in 0..3 * client.slots() as u64 {
            let mut request = client.request(64).unwrap();
            request.body().put(0, number).unwrap();
            match number % 2 {
                0 => request.send("sum").unwrap(),
                _ => drop(request.start("echo").unwrap()),
            }
        }
        // All slots are available at once again.
        let deadline = Instant::now() + Duration::from_secs(60);
        let all: Vec<_> = (0..client.slots()).map(|_| client.request(64).unwrap()).collect();
        assert!(Instant::now() < deadline);
        drop(all);
        // And so are their buffers: these are more than the pool has.
        for _ in 0..100 {
            drop(client.request_with_room(8, 1 << 20).unwrap().start("echo").unwrap());
            assert_eq!(sum(client, &[1]), 1);
        }
    });
}

#[test]
fn a_call_that_takes_too_long_is_given_up_and_harms_no_other() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let _serving = serve(&pool.socket(), server::Options::default());
        let deadline = Some(Duration::from_millis(20));
        let client = pool.client(client::Options { deadline, ..client::Options::default() });
        let mut request = client.request(8).unwrap();
        request.body().put(0, 100u64).unwrap();
        assert!(matches!(request.call("slow"), Err(Error::Deadline { .. })));
        std::thread::sleep(Duration::from_millis(120));
        assert_eq!(sum(&client, &[2, 3]), 5);
    }
}

#[test]
fn one_call_can_have_a_deadline_of_its_own() {
    everywhere(|_, client| {
        let slow = || {
            let mut request = client.request(8).unwrap();
            request.body().put(0, 50u64).unwrap();
            request.start("slow").unwrap()
        };
        let short = Duration::from_millis(10);
        let over = slow().wait_for(short).map(drop);
        assert!(matches!(over, Err(Error::Deadline { after, .. }) if after == short), "{over:?}");
        assert_eq!(slow().wait_for(Duration::from_secs(20)).unwrap().body().len(), 0);
    });
}

/// A call's own deadline counts from when it is set, is longer or shorter than the connection's, and includes the
/// wait for room.
#[test]
fn a_call_that_has_a_deadline_keeps_it() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let _serving = serve(&pool.socket(), server::Options::default());
        let client = |deadline, window| {
            pool.client(client::Options { deadline, window: CallWindow::Fixed(window), ..Default::default() })
        };
        let slow = |client: &Client, within| {
            let mut request = client.request(8).unwrap();
            request.body().put(0, 60u64).unwrap();
            request.set_deadline(within);
            request.start("slow")?.wait().map(drop)
        };
        let (short, long) = (Duration::from_millis(10), Duration::from_secs(20));
        let is_over = |ended: &Result<(), Error>, longest| matches!(ended, Err(Error::Deadline { after, .. }) if *after == longest);
        let patient = client(None, 16);
        let over = slow(&patient, short);
        assert!(is_over(&over, short), "{over:?}");
        slow(&client(Some(short), 16), long).unwrap();
        assert_eq!(sum(&patient, &[1, 2]), 3, "others have no deadline");
        let narrow = client(None, 0);
        let mut request = narrow.request(8).unwrap();
        request.body().put(0, 60u64).unwrap();
        let first = request.start("slow").unwrap();
        let over = slow(&narrow, short);
        assert!(is_over(&over, short), "{over:?}");
        first.wait().unwrap();
    }
}

#[test]
fn a_call_that_is_sent_again_runs_once() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let ran = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let counted = ran.clone();
        let _serving = crate::common::service(server::Options::default())
            .method("once", move |call| {
                std::thread::sleep(Duration::from_millis(30));
                let times = counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                call.answer(4)?.put(0, times).expect("four bytes");
                Ok(())
            })
            .serve(pool.socket())
            .unwrap();
        let resend = Some(Duration::from_millis(2));
        let client = pool.client(client::Options { resend, ..client::Options::default() });
        for times in 0..3u32 {
            let answer = client.request(8).unwrap().call("once").unwrap();
            assert_eq!(answer.body().get::<u32>(0).unwrap(), times);
        }
        assert_eq!(ran.load(std::sync::atomic::Ordering::SeqCst), 3);
    }
}

#[test]
fn a_stream_whose_parts_are_asked_for_again_has_each_once() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let _serving = crate::common::service(server::Options::default())
            .stream("slowly", |_| {
                let mut part = 0u32;
                Ok(Box::new(move |call| {
                    std::thread::sleep(Duration::from_millis(6));
                    call.answer(4)?.put(0, part).expect("four bytes");
                    part += 1;
                    Ok(part < 20)
                }))
            })
            .serve(pool.socket())
            .unwrap();
        let resend = Some(Duration::from_millis(1));
        let client = pool.client(client::Options { resend, ..client::Options::default() });
        for ahead in [0, 3] {
            let mut stream = client.request(8).unwrap().stream("slowly", ahead).unwrap();
            for part in 0..20u32 {
                assert_eq!(stream.next_part().unwrap().expect("a part").body().get::<u32>(0).unwrap(), part);
            }
            assert!(stream.next_part().unwrap().is_none());
        }
    }
}

#[test]
fn a_server_that_ends_ends_its_calls() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let serving = serve(&pool.socket(), server::Options { workers: 1, ..server::Options::default() });
        let client = pool.client(client::Options::default());
        assert_eq!(sum(&client, &[1, 2]), 3);
        drop(serving);
        let wrong = client.request(8).unwrap().call("echo").map(drop).unwrap_err();
        assert!(wrong.is_gone(), "{wrong}");
        assert!(wrong.to_string().contains("closed"), "{wrong}");
        // A new server can take the same name at once.
        let _serving = serve(&pool.socket(), server::Options::default());
        assert_eq!(sum(&pool.client(client::Options::default()), &[1, 2]), 3);
    }
}

#[test]
fn refusals_when_connecting_are_clear() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let connect = || {
            Client::connect(pool.client_socket(), "test", client::Options::default()).map(drop).unwrap_err()
        };
        assert!(connect().to_string().contains("no service is named"), "{}", connect());
        let _serving = serve(&pool.socket(), server::Options::default());
        let again =
            crate::common::service(server::Options::default()).serve(pool.socket()).map(drop).unwrap_err();
        assert!(again.to_string().contains("taken"), "{again}");
        let double = crate::common::service(server::Options::default()).method("echo", |_| Ok(()));
        assert!(matches!(double.serve(pool.socket()).map(drop), Err(Error::SameNumber(..))));
        let absent = pool.socket().with_file_name("absent");
        let nowhere = Client::connect(absent, "test", client::Options::default()).map(drop).unwrap_err();
        assert!(nowhere.to_string().contains("no manager"), "{nowhere}");
    }
}

#[test]
fn a_server_of_another_version_is_named() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let raw = unrack_pool::Client::connect(pool.socket()).unwrap();
        let service = raw.register("test").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let answers: [&[u8]; 2] = [b"urrpc\0\xff\x7f", b"something else"];
                let mut channels = Vec::new();
                for answer in answers {
                    let offer = service.accept(Duration::from_secs(10)).unwrap().expect("somebody connects");
                    channels.push(offer.accept(answer, 0, &[]).unwrap());
                }
                let offer = service.accept(Duration::from_secs(10)).unwrap().expect("somebody connects");
                offer.refuse(9, "not today");
            });
            let connect = || pool.connect("test", client::Options::default()).map(drop).unwrap_err();
            assert!(matches!(connect(), Error::Version { theirs: 0x7fff, .. }));
            assert!(matches!(connect(), Error::NotRpc { .. }));
            assert!(connect().to_string().contains("not today"));
        });
        let (answer, _) = (raw.open("test", b"hello", 0, &[], Duration::from_secs(1)), ());
        assert!(answer.is_err(), "nobody answers");
    }
}

#[test]
fn a_full_pool_is_said_and_passes() {
    for mode in modes() {
        let pool = Pool::with(mode, "8MiB", |_| {});
        let _serving = serve(&pool.socket(), server::Options::default());
        let client = pool.client(client::Options::default());
        let mut held = Vec::new();
        let full = loop {
            match client.request(1 << 20) {
                Ok(request) => held.push(request),
                Err(wrong) => break wrong,
            }
            assert!(held.len() <= 8);
        };
        assert!(full.to_string().contains("full"), "{full}");
        drop(held);
        assert_eq!(sum(&client, &[1, 2]), 3);
    }
}

#[test]
fn slots_that_are_all_held_are_said_at_the_deadline() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let _serving = serve(&pool.socket(), server::Options::default());
        let deadline = Some(Duration::from_millis(10));
        let client = pool.client(client::Options { deadline, ..client::Options::default() });
        let held: Vec<_> = (0..client.slots()).map(|_| client.request(8).unwrap()).collect();
        assert!(matches!(client.request(8).map(drop), Err(Error::Exhausted { .. })));
        drop(held);
        // Where threads are woken by way of two managers, a call may take longer than that.
        let mut later = std::iter::repeat_with(|| client.request(8).ok()?.call("echo").ok().map(drop));
        assert!(later.any(|called| called.is_some()));
    }
}

#[test]
fn windows_hold_back_and_adapt() {
    for mode in modes() {
        for window in [CallWindow::Fixed(0), CallWindow::Fixed(1), CallWindow::Adaptive] {
            let pool = Pool::new(mode);
            let _serving = serve(&pool.socket(), server::Options::default());
            let client = pool.client(client::Options { window, ..client::Options::default() });
            let mut pending = VecDeque::new();
            for _ in 0..3000 {
                let room = match window {
                    CallWindow::Fixed(window) => usize::from(window),
                    CallWindow::Adaptive => 1,
                };
                while pending.len() > room {
                    let call: client::PendingCall<'_> = pending.pop_front().unwrap();
                    call.wait().unwrap();
                }
                pending.push_back(client.request(8).unwrap().start("echo").unwrap());
            }
        }
    }
}

#[test]
fn services_and_their_clients_are_listed_while_they_are_there() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let looker = unrack_pool::Client::connect_as(pool.socket(), "looker").unwrap();
        assert_eq!(ServiceListing::read(&looker).unwrap().to_string(), "no services\n");
        let serving = serve(&pool.socket(), server::Options::default());
        let client = pool.client(client::Options::default());
        let listing = ServiceListing::read(&looker).unwrap();
        let [service] = listing.services.as_slice() else { panic!("{listing}") };
        assert_eq!((service.name.as_str(), service.connections.len()), ("test", 1));
        assert_eq!(service.connections[0].slots, client.slots());
        assert_eq!(service.server.as_ref().map(|peer| peer.pid), Some(std::process::id()));
        // The manager learns of it with a delay.
        let soon = |holds: &dyn Fn(&ServiceListing) -> bool| {
            let end = Instant::now() + Duration::from_secs(60);
            while !holds(&ServiceListing::read(&looker).unwrap()) {
                assert!(Instant::now() < end, "{}", ServiceListing::read(&looker).unwrap());
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        drop(client);
        soon(&|listing| listing.services[0].connections.is_empty());
        drop(serving);
        soon(&|listing| listing.services.is_empty());
    }
}
