//! Calls under tokio: on one thread, on several, with its timeouts and its cancellation.

use crate::common::{Pool, modes, serve};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use unrack_rpc::client::CallWindow;
use unrack_rpc::{Client, Error, client, server};

const PATIENCE: Duration = Duration::from_secs(60);

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

/// Runs a future, with a timeout so that no test hangs.
fn run(runtime: &Runtime, future: impl Future<Output = ()>) {
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("it ends") });
}

async fn sum(client: &Client, words: [u64; 2]) -> Result<u64, Error> {
    let mut request = client.request_async(16).await?;
    request.body().put(0, words).expect("sixteen bytes");
    Ok(request.call_async("sum").await?.body().get(0).expect("eight bytes"))
}

async fn slow(client: &Client, ms: u64) -> Result<(), Error> {
    let mut request = client.request_async(8).await?;
    request.body().put(0, ms).expect("eight bytes");
    request.call_async("slow").await.map(drop)
}

/// Runs far more tasks than the window has room for, which only they can make.
#[test]
fn tasks_share_a_client() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let _serving = serve(&pool.socket(), server::Options::default());
        for (runtime, window) in [(one_thread(), 0), (one_thread(), 16), (threads(), 0), (threads(), 3)] {
            let window = CallWindow::Fixed(window);
            let client = Arc::new(pool.client(client::Options { window, ..client::Options::default() }));
            run(&runtime, async {
                let mut tasks = JoinSet::new();
                for task in 0..50u64 {
                    let client = client.clone();
                    tasks.spawn(async move {
                        for number in 0..10 {
                            assert_eq!(sum(&client, [task, number]).await.unwrap(), task + number);
                        }
                    });
                }
                while let Some(ended) = tasks.join_next().await {
                    ended.unwrap();
                }
            });
        }
    }
}

#[test]
fn others_run_while_a_task_waits() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let _serving = serve(&pool.socket(), server::Options { workers: 2, ..server::Options::default() });
        let client =
            pool.client(client::Options { window: CallWindow::Fixed(0), ..client::Options::default() });
        let other = pool.client(client::Options::default());
        run(&one_thread(), async {
            let waits = async { tokio::join!(slow(&client, 100), slow(&client, 1)) };
            let busy = async {
                for number in 0..20 {
                    assert_eq!(sum(&other, [number, 1]).await.unwrap(), number + 1);
                    tokio::task::yield_now().await;
                }
            };
            let (waited, ()) = tokio::join!(waits, busy);
            waited.0.unwrap();
            waited.1.unwrap();
        });
    }
}

#[test]
fn what_is_cancelled_gives_its_place_to_others() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let _serving = serve(&pool.socket(), server::Options { workers: 2, ..server::Options::default() });
        let client =
            pool.client(client::Options { window: CallWindow::Fixed(0), ..client::Options::default() });
        run(&one_thread(), async {
            let mut cancelled = 0;
            for _ in 0..20 {
                let short = Duration::from_millis(2);
                // The first waits for its answer, the second for room.
                let (one, two) = tokio::join!(
                    tokio::time::timeout(short, slow(&client, 60)),
                    tokio::time::timeout(short, slow(&client, 60)),
                );
                // On a busy machine, an answer may come before this thread sees that its time is over.
                cancelled += u32::from(one.is_err() && two.is_err());
                assert_eq!(sum(&client, [1, 2]).await.unwrap(), 3);
            }
            assert!(cancelled > 0, "no call was cancelled");
        });
    }
}

/// Deadlines also end calls that wait for room; a call's own comes before the connection's.
#[test]
fn deadlines_end_what_waits() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let _serving = serve(&pool.socket(), server::Options { workers: 2, ..server::Options::default() });
        let deadline = Some(Duration::from_millis(20));
        let window = CallWindow::Fixed(0);
        let client = pool.client(client::Options { deadline, window, ..client::Options::default() });
        run(&one_thread(), async {
            let patient = async {
                let mut request = client.request(8).unwrap();
                request.body().put(0, 150u64).unwrap();
                request.set_deadline(PATIENCE);
                request.call_async("slow").await.map(drop)
            };
            let (patient, hasty) = tokio::join!(patient, slow(&client, 0));
            patient.unwrap();
            assert!(
                matches!(hasty, Err(Error::Deadline { after, .. }) if Some(after) == deadline),
                "{hasty:?}"
            );
            assert!(matches!(slow(&client, 150).await, Err(Error::Deadline { .. })));
        });
    }
}

#[test]
fn a_server_that_ends_ends_what_waits() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let serving = serve(&pool.socket(), server::Options { workers: 1, ..server::Options::default() });
        let client =
            pool.client(client::Options { window: CallWindow::Fixed(0), ..client::Options::default() });
        run(&threads(), async {
            let end = tokio::task::spawn_blocking(move || {
                std::thread::sleep(Duration::from_millis(30));
                drop(serving);
            });
            // Longer than a server takes to end: one waits for its answer, one for room.
            let (one, two) = tokio::join!(slow(&client, 800), slow(&client, 800));
            end.await.unwrap();
            assert!(one.unwrap_err().is_gone() && two.unwrap_err().is_gone());
        });
    }
}

/// Runs twice as many tasks as the queues have slots, each of which has a slot before it lets the others go on:
/// with one thread, a task that blocked it waiting for a slot would wait for ever.
#[test]
fn tasks_that_wait_for_a_slot_let_others_go_on() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let _serving = serve(&pool.socket(), server::Options::default());
        let client = Arc::new(pool.client(client::Options::default()));
        run(&one_thread(), async {
            let mut tasks = JoinSet::new();
            for task in 0..2 * client.slots() as u64 {
                let client = client.clone();
                tasks.spawn(async move {
                    let mut request = client.request_with_room_async(16, 8).await.unwrap();
                    request.body().put(0, [task, 1]).unwrap();
                    tokio::task::yield_now().await;
                    let answer = request.call_async("sum").await.unwrap();
                    assert_eq!(answer.body().get::<u64>(0).unwrap(), task + 1);
                });
            }
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap();
            }
        });
    }
}

/// The deadline is kept, and the end of the server is reported, while other tasks run.
#[test]
fn a_task_without_a_slot_is_told_why() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let serving = serve(&pool.socket(), server::Options::default());
        let hasty =
            client::Options { deadline: Some(Duration::from_millis(10)), ..client::Options::default() };
        let (hasty, patient) = (pool.client(hasty), pool.client(client::Options::default()));
        run(&one_thread(), async {
            let held: Vec<_> = (0..hasty.slots()).map(|_| hasty.request(8).unwrap()).collect();
            assert!(matches!(hasty.request_async(8).await.map(drop), Err(Error::Exhausted { .. })));
            drop(held);
            assert_eq!(sum(&hasty, [1, 2]).await.unwrap(), 3);

            let _held: Vec<_> = (0..patient.slots()).map(|_| patient.request(8).unwrap()).collect();
            let (told, ()) = tokio::join!(patient.request_async(8), async {
                tokio::task::yield_now().await;
                drop(serving);
            });
            assert!(matches!(told.map(drop), Err(Error::Gone { .. })));
        });
    }
}
