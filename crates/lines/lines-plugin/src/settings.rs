//! Settings of a run, parsed from the arguments of the plugin: `name=value`, separated by commas.

use crate::sampling::WindowPlan;
use std::path::PathBuf;
use std::str::FromStr;
use unrack_lines::placement::PagePlacement;
use unrack_lines::processor::Processor;

/// Settings of a recorded run. The name of each argument is in parentheses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PluginSettings {
    /// Directory for the summaries and recordings (`out`).
    pub(crate) out: PathBuf,
    /// Initial distance and length of windows (`period`, `window`, `lead`).
    pub(crate) plan: WindowPlan,
    /// Seed for the random positions of windows (`seed`).
    pub(crate) seed: u64,
    /// Maximum size of a recording, in bytes (`limit`).
    pub(crate) limit: u64,
    /// Processor whose caches are simulated (`processor`).
    pub(crate) processor: Processor,
    /// Number of simulated cores, each with private caches, to which threads are assigned in turn (`cores`).
    pub(crate) cores: u32,
    /// Simulated placements of pages, separated by `+` (`placements`).
    pub(crate) placements: Vec<PagePlacement>,
}

/// Default number of instructions between the beginnings of successive windows, before a recording reaches its limit. A
/// run of 30 million instructions, which takes a hundredth of a second, then has the 30 windows that a confidence
/// interval needs.
const PERIOD: u64 = 1_000_000;
/// Default length of a window, in instructions. Wunderlich et al., SMARTS, ISCA 2003, figure 5, use 1000. Remote memory is
/// up to ten times slower than the memory in their study, and a window has to contain many overlapping misses.
const WINDOW: u64 = 16_000;
/// Default length of the lead before a window, in instructions. SMARTS, section 4.4, uses 2000 for a core whose reorder
/// buffer has 128 entries, whereas reorder buffers now have up to 512 entries.
const LEAD: u64 = 4_000;
/// Minimum distance and minimum length of windows, in instructions. It is larger than the longest block of translated
/// code.
const SHORTEST: u64 = 1024;
/// Default maximum size of a recording, in bytes: enough for about 1500 windows of a program whose accesses compress
/// badly.
const LIMIT: u64 = 128 << 20;

impl PluginSettings {
    /// Parses the arguments.
    ///
    /// # Errors
    /// A description of the fault in the arguments, and its position.
    pub(crate) fn parse<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<PluginSettings, String> {
        let mut out = None;
        let mut plan = WindowPlan { period: PERIOD, window: WINDOW, lead: LEAD };
        let (mut seed, mut limit, mut cores) = (0, LIMIT, 1);
        let (mut processor, mut placements) = (None, Vec::new());
        for argument in arguments {
            let (name, value) = argument.split_once('=').ok_or_else(|| format!("{argument}: no value"))?;
            match name {
                "out" => out = Some(PathBuf::from(value)),
                "period" => plan.period = number(name, value, SHORTEST)?,
                "window" => plan.window = number(name, value, SHORTEST)?,
                "lead" => plan.lead = number(name, value, 0)?,
                "seed" => seed = number(name, value, 0)?,
                "limit" => limit = number(name, value, 0)?,
                "processor" => processor = Some(parsed(name, value)?),
                "cores" => cores = parsed(name, value)?,
                "placements" => {
                    let words = value.split('+').filter(|word| !word.is_empty());
                    placements = words.map(|word| parsed(name, word)).collect::<Result<_, _>>()?;
                }
                _ => return Err(format!("{name}: no such argument")),
            }
        }
        let out = out.filter(|out| out.is_absolute());
        let out = out.ok_or("out: the absolute path of a folder is needed")?;
        let processor = processor.ok_or("processor: the name of one is needed, such as zen3")?;
        Ok(PluginSettings { out, plan, seed, limit, processor, cores, placements })
    }
}

fn number(name: &str, value: &str, least: u64) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| (least..1 << 48).contains(number));
    number.ok_or_else(|| format!("{name}={value}: not a number from {least} on"))
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|why| format!("{name}={value}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(arguments: &[&str]) -> Result<PluginSettings, String> {
        PluginSettings::parse(["processor=zen3"].iter().chain(arguments).copied())
    }

    #[test]
    fn what_is_not_given_has_a_default() {
        let settings = settings(&["out=/x", "window=2000"]).unwrap();
        assert_eq!((settings.plan.window, settings.plan.lead), (2000, LEAD));
        assert_eq!(settings.limit, LIMIT);
        assert_eq!((settings.cores, settings.placements), (1, Vec::new()));
        assert!(PluginSettings::parse(["out=/x"].into_iter()).unwrap_err().starts_with("processor"));
    }

    #[test]
    fn caches_and_placements_are_read() {
        let settings =
            settings(&["out=/x", "processor=zen4:l3=4M/16", "cores=3", "placements=all-far+interleaved:0.5"]);
        let settings = settings.unwrap();
        assert_eq!((settings.processor.l3.bytes, settings.cores), (4 << 20, 3));
        assert_eq!(
            settings.placements,
            [PagePlacement::AllFar, PagePlacement::Interleaved { near_share: 0.5 }]
        );
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (arguments, name) in [
            (&["out=x"][..], "out"),
            (&[], "out"),
            (&["out=/x", "period=0"], "period=0"),
            (&["out=/x", "lead=-1"], "lead=-1"),
            (&["out=/x", "color=red"], "color"),
            (&["out=/x", "processor=z80"], "processor=z80"),
            (&["out=/x", "cores=-1"], "cores=-1"),
            (&["out=/x", "placements=all-far+middle"], "placements=middle"),
            (&["out=/x", "seed"], "seed"),
        ] {
            let error = settings(arguments).unwrap_err();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
