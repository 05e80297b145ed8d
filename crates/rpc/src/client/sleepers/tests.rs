//! All interleavings: an answer that nobody is told of leaves a thread asleep for ever, which the checker reports.

use super::*;
use loom::sync::Arc;

#[derive(Default)]
struct Client {
    sleepers: Sleepers,
    bell: Bell,
    /// What the server wrote.
    arrived: [AtomicBool; 2],
    /// Which of them were taken: the calls of a client, and their lock.
    taken: Mutex<[bool; 2]>,
}

impl Client {
    /// Takes what has come. Says whether `mine` was taken, now or before; others are told of theirs.
    fn find(&self, mine: usize, place: Place) -> bool {
        let mut taken = self.taken.lock().unwrap();
        let before = *taken;
        for (taken, arrived) in taken.iter_mut().zip(&self.arrived) {
            *taken |= arrived.load(Ordering::Acquire);
        }
        let others = taken[1 - mine] != before[1 - mine];
        let found = taken[mine];
        drop(taken);
        if others {
            self.sleepers.tell(&self.bell, place);
        }
        found
    }

    fn wait(&self, mine: usize) {
        let mut found = false;
        while !found && !self.find(mine, Place::Beside) {
            self.sleepers.sleep(&self.bell, None, |place| {
                found = match place {
                    Place::OnBell => self.find(mine, place),
                    Place::Beside => self.taken.lock().unwrap()[mine],
                };
                found
            });
        }
    }

    /// As the server: the answers are written, and the bell rung.
    fn answer(&self) {
        for arrived in &self.arrived {
            arrived.store(true, Ordering::Release);
        }
        self.bell.ring();
    }
}

fn model(preemptions: usize, threads: impl Fn(Arc<Client>) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || threads(Arc::default()));
}

/// Two threads wait; who sleeps on the bell takes the other's answer too. With three threads and more than one
/// preemption the checker gives two that ring each other's turns for ever.
#[test]
fn loom_both_who_wait_are_told() {
    model(1, |client| {
        let waits = loom::thread::spawn({
            let client = client.clone();
            move || client.wait(0)
        });
        let answers = loom::thread::spawn({
            let client = client.clone();
            move || client.answer()
        });
        client.wait(1);
        waits.join().unwrap();
        answers.join().unwrap();
    });
}

/// A thread that does not sleep takes the answer of one that does.
#[test]
fn loom_who_sleeps_is_told_by_who_took_its_answer() {
    model(3, |client| {
        let waits = loom::thread::spawn({
            let client = client.clone();
            move || client.wait(0)
        });
        // The server's ring comes later than the look of this thread, or not at all: it was not yet seen asleep.
        client.arrived[0].store(true, Ordering::Release);
        client.find(1, Place::Beside);
        waits.join().unwrap();
    });
}

/// A thread leaves the bell while another goes to sleep beside it: that one takes the bell, and hears the server.
#[test]
fn loom_a_bell_that_is_left_is_taken() {
    model(3, |client| {
        let waits = loom::thread::spawn({
            let client = client.clone();
            move || client.wait(1)
        });
        client.sleepers.sleep(&client.bell, None, |_| true);
        client.arrived[1].store(true, Ordering::Release);
        client.bell.ring();
        waits.join().unwrap();
    });
}

/// The bell stays another's; somebody else takes the answer.
#[test]
fn loom_who_sleeps_beside_the_bell_is_told() {
    model(3, |client| {
        let on_bell = client.sleepers.take_bell();
        let waits = loom::thread::spawn({
            let client = client.clone();
            move || client.wait(1)
        });
        client.arrived[1].store(true, Ordering::Release);
        client.find(0, Place::Beside);
        waits.join().unwrap();
        drop(on_bell);
    });
}
