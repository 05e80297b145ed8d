//! Utilization of links during the time in which messages were submitted.

use super::NEARLY_ALL;
use unrack_engine::events::LinkId;
use unrack_engine::run::Run;
use unrack_engine::topology::{LinkEnd, Topology};
use unrack_units::Time;

/// Kind of links. Messages are spread over all links of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    FromNodes,
    ToNodes,
    BetweenSwitches,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::FromNodes, Kind::ToNodes, Kind::BetweenSwitches];

    fn from_link(topology: &Topology, link: LinkId) -> Kind {
        match link {
            LinkId::Host(_) => Kind::FromNodes,
            LinkId::Port(port) => match topology.end(port) {
                LinkEnd::Node(_) => Kind::ToNodes,
                LinkEnd::Switch(_) => Kind::BetweenSwitches,
            },
        }
    }

    /// Returns the name that warnings use.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::FromNodes => "links from nodes",
            Kind::ToNodes => "links to nodes",
            Kind::BetweenSwitches => "links between switches",
        }
    }
}

/// Utilization of links: the time during which each link carried bits in the whole run, divided by the time in which
/// messages were submitted.
pub(super) struct LinkUtilization {
    links: Vec<(Kind, LinkId, f64)>,
    /// Share of the messages that crossed a saturated link.
    share: f64,
}

impl LinkUtilization {
    /// Computes the utilization; `None` if all messages were submitted at once, or if no link carried bits.
    pub(super) fn new(topology: &Topology, run: &Run) -> Option<LinkUtilization> {
        let submitted = run.outcomes.iter().map(|outcome| outcome.submitted);
        let span = submitted.clone().max()? - submitted.min()?;
        let share = |time: Time| time.as_ps() as f64 / span.as_ps() as f64;
        let link = |(link, time)| (Kind::from_link(topology, link), link, share(time));
        let links: Vec<_> = (span > Time::ZERO).then(|| run.busy.iter().map(link).collect())?;
        let mut load = LinkUtilization { links, share: 0.0 };
        load.share = load.crossed(topology, run);
        (!load.links.is_empty()).then_some(load)
    }

    /// Returns the kind of links with the highest mean utilization, if it is above one: then the messages offered more
    /// than these links can carry.
    pub(super) fn overloaded(&self) -> Option<(Kind, f64)> {
        let means = Kind::ALL.into_iter().filter_map(|kind| Some((kind, self.mean(kind)?)));
        means.filter(|(_, mean)| *mean > 1.0).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns the share of the messages that crossed a saturated link.
    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// Returns the number of saturated links, the number of links that carried any bits, and the utilization of the
    /// busiest link.
    pub(super) fn saturated(&self) -> (usize, usize, f64) {
        let saturated = self.links.iter().filter(|(.., busy)| *busy >= NEARLY_ALL).count();
        let most = self.links.iter().map(|(.., busy)| *busy).fold(0.0, f64::max);
        (saturated, self.links.len(), most)
    }

    /// Returns the kind to which the busiest link belongs.
    pub(super) fn busiest(&self) -> Kind {
        let busiest = self.links.iter().max_by(|a, b| a.2.total_cmp(&b.2));
        busiest.map_or(Kind::ToNodes, |(kind, ..)| *kind)
    }

    fn mean(&self, kind: Kind) -> Option<f64> {
        let of_kind = self.links.iter().filter(|(of, ..)| *of == kind).map(|(.., busy)| *busy);
        let (sum, count) = of_kind.fold((0.0, 0), |(sum, count), busy| (sum + busy, count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }

    /// Returns the share of the messages that crossed a saturated link. If the fabric selects the link that a message
    /// takes (between switches, and with pooled NICs), all links among which it selects are judged by their mean.
    fn crossed(&self, topology: &Topology, run: &Run) -> f64 {
        let full = |kind| self.mean(kind).is_some_and(|mean| mean >= NEARLY_ALL);
        let is_pooled = topology.attachments() > topology.nodes();
        let mut from = vec![is_pooled && full(Kind::FromNodes); topology.nodes() as usize];
        let mut to = vec![is_pooled && full(Kind::ToNodes); topology.nodes() as usize];
        let between = full(Kind::BetweenSwitches);
        for (_, link, busy) in self.links.iter().filter(|_| !is_pooled) {
            match *link {
                LinkId::Host(node) => from[node as usize] = *busy >= NEARLY_ALL,
                LinkId::Port(port) => {
                    if let LinkEnd::Node(node) = topology.end(port) {
                        to[node as usize] = *busy >= NEARLY_ALL;
                    }
                }
            }
        }
        let crosses = |src: u32, dst: u32| {
            let goes_on = topology.graph().is_some() || topology.switch_of(src) != topology.switch_of(dst);
            from[src as usize] || to[dst as usize] || between && goes_on
        };
        let of = run.messages.iter().filter(|message| crosses(message.data_src(), message.data_dst()));
        of.count() as f64 / run.messages.len().max(1) as f64
    }
}
