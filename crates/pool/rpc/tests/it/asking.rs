//! Handlers that ask the manager, while clients come and go.

use crate::common::Pool;
use std::sync::atomic::{AtomicBool, Ordering};
use unrack_pool::cache_control::MemoryKind;
use unrack_rpc::server::CallRefusal;
use unrack_rpc::{Server, WaitPolicy, client, server};

/// A queue thread that is about to sleep and finds a call must not run it there: the thread that reads the manager's messages
/// waits to wake the queue thread, and the call for a message.
#[test]
fn a_handler_may_ask_the_manager_while_clients_leave() {
    let pool = Pool::new(MemoryKind::Coherent);
    for waiting in [WaitPolicy::Sleep, WaitPolicy::Adaptive] {
        let own = unrack_pool::Client::connect(pool.socket()).expect("the pool is there");
        let lender = own.clone();
        let service = Server::new("test", server::Options { waiting, ..server::Options::default() });
        let service = service.method("lease", move |_| {
            lender.lease(1).map(drop).map_err(|error| {
                eprintln!("{error}");
                CallRefusal::from_number(1)
            })
        });
        let _serving = service.serve_on(&own).expect("the name is free");
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    drop(pool.client(client::Options::default()));
                }
            });
            let client = pool.client(client::Options::default());
            for call in 0..500 {
                let leased = client.request(0).expect("there is room").call("lease").map(drop);
                assert!(leased.is_ok(), "call {call}, {waiting}: {leased:?}");
            }
            ended.store(true, Ordering::Relaxed);
        });
    }
}
