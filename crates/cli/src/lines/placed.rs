//! Placement that a question is about: which pages are near, as the recorder decides it.

use crate::failure::Failure;
use clap::ValueEnum;
use unrack_lines::core::Pages;
use unrack_lines::placement::Placement;
use unrack_units::{Bytes, Share};

/// Rule by which pages come into near memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rule {
    /// No page is near
    AllFar,
    /// Pages are near in turns of their addresses
    Interleaved,
    /// Pages are near in the order of their first misses, until near memory is full
    FirstTouch,
}

/// Placement that is asked for, and those that the recorder decides on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed {
    pub rule: Rule,
    /// Placement that is asked for.
    pub asked: Placement,
    /// Near memory in words.
    pub local: String,
    /// Placements by the bits of masks: the one that is asked for first, then shares interleaved.
    pub recorded: Vec<Placement>,
}

impl Rule {
    /// Returns the name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Rule::AllFar => "all-far",
            Rule::Interleaved => "interleaved",
            Rule::FirstTouch => "first-touch",
        }
    }

    /// Returns whether the placement needs the program's footprint for this share of it.
    pub(crate) fn needs_footprint(self, local: Share) -> bool {
        match (self, local) {
            (Rule::AllFar, _) => false,
            (Rule::Interleaved, share) => matches!(share, Share::Size(_)),
            (Rule::FirstTouch, share) => matches!(share, Share::Fraction(_)),
        }
    }

    /// Returns the placement of a program, whose footprint is known if [`Rule::needs_footprint`] says so.
    ///
    /// # Errors
    /// If the footprint is needed and not known.
    pub(crate) fn placed(self, local: Share, footprint: Option<Bytes>) -> Result<Placed, Failure> {
        let whole = || {
            let text = "the footprint is needed for this --placement and --local: give a share with interleaved, or a size \
                        with first-touch";
            footprint.ok_or_else(|| Failure::Usage(text.into()))
        };
        let asked = match (self, local) {
            (Rule::AllFar, _) => Placement::AllFar,
            (Rule::Interleaved, Share::Fraction(share)) => Placement::Interleaved { near_share: share.get() },
            (Rule::Interleaved, Share::Size(size)) => {
                let near_share = size.get() as f64 / whole()?.get().max(1) as f64;
                Placement::Interleaved { near_share: near_share.min(1.0) }
            }
            (Rule::FirstTouch, Share::Size(size)) => Placement::FirstTouch { near_bytes: size.get() },
            (Rule::FirstTouch, share) => Placement::FirstTouch { near_bytes: share.of(whole()?).get() },
        };
        let shares = Placement::SHARES.map(|near_share| Placement::Interleaved { near_share });
        let recorded = [asked.clone()].into_iter().chain(shares.into_iter().filter(|one| *one != asked));
        let local = if self == Rule::AllFar { "0%".into() } else { local.to_string() };
        Ok(Placed { rule: self, recorded: recorded.collect(), local, asked })
    }
}

impl Placed {
    /// Returns all placements with their names: the one that is asked for, all pages far, and shares interleaved.
    pub(crate) fn all(&self) -> Vec<(String, Pages)> {
        let recorded =
            self.recorded.iter().zip(0..).map(|(placement, bit)| (placement, Pages::Placement(bit)));
        let mut all: Vec<(String, Pages)> =
            recorded.map(|(placement, pages)| (named(placement), pages)).collect();
        if self.asked == Placement::AllFar {
            all[0].1 = Pages::AllFar;
        } else {
            all.insert(1, (named(&Placement::AllFar), Pages::AllFar));
        }
        all
    }
}

/// Names a placement, with its share in percent.
fn named(placement: &Placement) -> String {
    match placement {
        Placement::Interleaved { near_share } => format!("{:.0} % near, interleaved", near_share * 100.0),
        Placement::FirstTouch { near_bytes } => format!("{} near, first touch", Bytes::new(*near_bytes)),
        Placement::AllFar => "all far".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(text: &str) -> Share {
        text.parse().unwrap()
    }

    #[test]
    fn a_share_and_a_size_become_what_the_recorder_takes() {
        let placed = Rule::Interleaved.placed(share("25%"), None).unwrap();
        assert_eq!(placed.recorded.len(), 3, "25 % is one of the usual shares");
        let names: Vec<String> = placed.all().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names[..2], ["25 % near, interleaved", "all far"]);
        assert_eq!(placed.all()[3].1, Pages::Placement(2));
        let whole = Some(Bytes::new(8 << 20));
        let placed = Rule::FirstTouch.placed(share("50%"), whole).unwrap();
        assert_eq!(placed.asked, Placement::FirstTouch { near_bytes: 4 << 20 });
        let placed = Rule::Interleaved.placed(share("2MiB"), whole).unwrap();
        assert_eq!(placed.asked, Placement::Interleaved { near_share: 0.25 });
        let placed = Rule::AllFar.placed(share("25%"), None).unwrap();
        assert_eq!((placed.local.as_str(), placed.all()[0].1), ("0%", Pages::AllFar));
    }

    #[test]
    fn a_footprint_that_is_needed_is_asked_for() {
        for (rule, local, needs) in [
            (Rule::AllFar, "2MiB", false),
            (Rule::Interleaved, "25%", false),
            (Rule::Interleaved, "2MiB", true),
            (Rule::FirstTouch, "25%", true),
            (Rule::FirstTouch, "2MiB", false),
        ] {
            assert_eq!(rule.needs_footprint(share(local)), needs);
            assert_eq!(rule.placed(share(local), None).is_err(), needs);
        }
    }
}
