//! Awaited calls, under an executor of a few lines: any executor will do.

use crate::common::{Pool, modes, serve};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;
use unrack_rpc::{Client, Error, client, server};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

async fn sum(client: &Client, words: [u64; 2]) -> Result<u64, Error> {
    let mut request = client.request(16)?;
    request.body().put(0, words).expect("sixteen bytes");
    Ok(request.start("sum")?.await?.body().get(0).expect("eight bytes"))
}

#[test]
fn calls_are_awaited_by_many_threads() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let _serving = serve(&pool.socket(), server::Options::default());
        let client = pool.client(client::Options::default());
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let client = &client;
                scope.spawn(move || {
                    for number in 0..50 {
                        assert_eq!(block_on(sum(client, [thread, number])).unwrap(), thread + number);
                    }
                });
            }
        });
    }
}

#[test]
fn a_task_that_waits_is_woken_by_the_answer_the_deadline_and_the_end() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let serving = serve(&pool.socket(), server::Options { workers: 2, ..server::Options::default() });
        let slow = |client: &Client, ms: u64| {
            let mut request = client.request(8).unwrap();
            request.body().put(0, ms).unwrap();
            block_on(request.start("slow").unwrap()).map(drop)
        };
        let client = pool.client(client::Options::default());
        slow(&client, 20).unwrap();
        let deadline = Some(Duration::from_millis(10));
        let hasty = pool.client(client::Options { deadline, ..client::Options::default() });
        assert!(matches!(slow(&hasty, 100), Err(Error::Deadline { .. })));
        slow(&hasty, 0).unwrap();
        let mut request = hasty.request(8).unwrap();
        request.body().put(0, 30u64).unwrap();
        request.set_deadline(Duration::from_secs(20));
        let own = block_on(request.start("slow").unwrap());
        assert!(own.is_ok(), "a call's own deadline counts");

        let ended = std::thread::scope(|scope| {
            let waits = scope.spawn(|| slow(&client, 300));
            std::thread::sleep(Duration::from_millis(30));
            drop(serving);
            waits.join().unwrap()
        });
        // The worker may still have finished it.
        assert!(ended.is_ok() || ended.unwrap_err().is_gone());
        assert!(slow(&client, 0).unwrap_err().is_gone());
    }
}
