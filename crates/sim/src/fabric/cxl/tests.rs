//! What only this module can see: where every credit is.

use super::*;
use crate::engine::{Sim, Unobserved};
use unrack_units::Rate;
use unrack_workload::{Outbox, Source};

/// A `Cxl` whose credits are counted after every event.
struct Counted {
    cxl: Cxl,
    credits: u32,
    /// Credits of one class away from home, at most.
    most_away: u32,
}

impl Counted {
    fn count(&mut self) {
        for link in 0..self.cxl.links.len() {
            for class in Class::ALL {
                let home = self.cxl.links[link].transmitter.credits(class);
                let away = self.away(link, class);
                assert_eq!(home + away, self.credits, "{class:?} on link {link}");
                self.most_away = self.most_away.max(away);
            }
        }
    }

    /// Being sent, on the wire, or in a buffer.
    fn away(&self, link: usize, class: Class) -> u32 {
        let Link { transmitter, wire, .. } = &self.cxl.links[link];
        let sending = u32::from(transmitter.midway_class() == Some(class));
        let flying = wire.iter().filter(|(_, line)| line.class == class).count() as u32;
        let node = (link / 2) as u16;
        let buffered = match link.is_multiple_of(2) {
            true => self.cxl.switch.queued(node, class),
            false => self.cxl.nodes[link / 2].held(class),
        };
        sending + flying + buffered
    }
}

impl Fabric for Counted {
    type Event = Event;
    fn name(&self) -> &'static str {
        "counted"
    }
    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        self.cxl.submit(core, id);
        self.count();
    }
    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        self.cxl.handle(core, event);
        self.count();
    }
    fn unloaded(&self, message: &Message) -> Time {
        self.cxl.unloaded(message)
    }
}

/// Every node sends a page or a line, of every kind, to every other, and all of them to node 0.
struct Storm(u32);

impl Source for Storm {
    fn start<O: Outbox>(&mut self, out: &mut O) {
        let kinds = [Message::read, Message::write, Message::rmw, Message::flow];
        for (src, dst) in (0..self.0).flat_map(|src| (0..self.0).map(move |dst| (src, dst))) {
            for (n, kind) in kinds.into_iter().enumerate().filter(|_| src != dst) {
                out.submit(kind(src, dst, if n % 2 == 0 { 4096 } else { 64 }));
                if src != 0 {
                    out.submit(kind(src, 0, 4096));
                }
            }
        }
    }
    fn wake<O: Outbox>(&mut self, _actor: u32, _now: Time, _out: &mut O) {}
    fn completed<O: Outbox>(&mut self, _message: &Message, _now: Time, _out: &mut O) {}
    fn total(&self) -> Option<u64> {
        None
    }
    fn is_exhausted(&self) -> bool {
        true
    }
}

#[test]
fn no_credit_is_created_or_lost_and_nothing_locks_up() {
    let star = Star {
        nodes: 6,
        rate: Rate::from_gbps(100),
        propagation: Time::from_ns(10),
        switch_latency: Time::ZERO,
    };
    for credits in [1, 2, 7, 64] {
        let params = Params { credits, ..Params::default() };
        let counted = Counted { cxl: Cxl::new(&star, &params).unwrap(), credits, most_away: 0 };
        let (run, ..) = Sim::observed(counted, Storm(6), Unobserved).run();
        assert!(run.outcomes.iter().all(|outcome| outcome.completed().is_some()), "{credits} credits");
    }
}
