//! Textual form of processors: the name of a preset, followed by the fields that differ from this preset.
//!
//! ```text
//! processor = name (":" field "=" value)*
//! value     = size "/" ways | number | "victims" | "inclusive" | "none" | prefetcher ("-and-" prefetcher)*
//!           | lines "/" lines "/" ("page" | "crossing") | "hashed" | "same"
//! ```

use super::{
    CacheSize, InclusionPolicy, MOST_AHEAD, PageFrames, Prefetchers, Processor, ProcessorError, StreamReach,
    TlbSize,
};
use std::fmt;
use std::str::FromStr;

/// Names of the fields that the textual form of a processor may set.
const FIELDS: &str =
    "fields are l1, l2, frames, l3, l3-cores, l3-content, l1-tlb, huge-tlb, l2-tlb, prefetchers and streams";

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        let usual = Processor::by_name(self.name).ok().map(|usual| fields(&usual));
        for (index, (name, value)) in fields(self).into_iter().enumerate() {
            if usual.as_ref().is_none_or(|usual| usual[index].1 != value) {
                write!(f, ":{name}={value}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Processor {
    type Err = ProcessorError;

    fn from_str(text: &str) -> Result<Processor, ProcessorError> {
        let mut words = text.split(':');
        let mut processor = Processor::by_name(words.next().unwrap_or(""))?;
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| unknown(word, "field", FIELDS))?;
            set(&mut processor, name, value)?;
        }
        processor.check()?;
        Ok(processor)
    }
}

fn fields(processor: &Processor) -> [(&'static str, String); 11] {
    let cache = |size: CacheSize| format!("{}/{}", size.bytes, size.ways);
    let tlb = |size: TlbSize| format!("{}/{}", size.entries, size.ways);
    [
        ("l1", cache(processor.l1)),
        ("l2", cache(processor.l2)),
        ("frames", frames_name(processor.frames).into()),
        ("l3", cache(processor.l3)),
        ("l3-cores", processor.l3_cores.to_string()),
        ("l3-content", content_name(processor.l3_content).into()),
        ("l1-tlb", tlb(processor.l1_tlb)),
        ("huge-tlb", processor.l1_tlb_huge.map_or("none".into(), tlb)),
        ("l2-tlb", tlb(processor.l2_tlb)),
        ("prefetchers", prefetcher_names(processor.prefetchers)),
        ("streams", reach_text(processor.streams)),
    ]
}

fn set(processor: &mut Processor, name: &str, value: &str) -> Result<(), ProcessorError> {
    match name {
        "l1" => processor.l1 = cache(value)?,
        "l2" => processor.l2 = cache(value)?,
        "frames" => processor.frames = frames(value)?,
        "l3" => processor.l3 = cache(value)?,
        "l3-cores" => processor.l3_cores = number(value, "number of cores")?,
        "l3-content" => processor.l3_content = content(value)?,
        "l1-tlb" => processor.l1_tlb = tlb(value)?,
        "huge-tlb" if value == "none" => processor.l1_tlb_huge = None,
        "huge-tlb" => processor.l1_tlb_huge = Some(tlb(value)?),
        "l2-tlb" => processor.l2_tlb = tlb(value)?,
        "prefetchers" => processor.prefetchers = prefetchers(value)?,
        "streams" => processor.streams = reach(value)?,
        _ => return Err(unknown(name, "field", FIELDS)),
    }
    Ok(())
}

fn frames_name(frames: PageFrames) -> &'static str {
    match frames {
        PageFrames::Hashed => "hashed",
        PageFrames::Same => "same",
    }
}

fn frames(value: &str) -> Result<PageFrames, ProcessorError> {
    let known = [PageFrames::Hashed, PageFrames::Same];
    let found = known.into_iter().find(|frames| frames_name(*frames) == value);
    found.ok_or_else(|| unknown(value, "place of pages", "it is hashed or same"))
}

fn content_name(content: InclusionPolicy) -> &'static str {
    match content {
        InclusionPolicy::Victims => "victims",
        InclusionPolicy::Inclusive => "inclusive",
    }
}

fn content(value: &str) -> Result<InclusionPolicy, ProcessorError> {
    let known = [InclusionPolicy::Victims, InclusionPolicy::Inclusive];
    let found = known.into_iter().find(|content| content_name(*content) == value);
    found.ok_or_else(|| unknown(value, "content of a last level", "it is victims or inclusive"))
}

fn prefetcher_names(on: Prefetchers) -> String {
    let names = [("next-line", on.next_line), ("stride", on.stride), ("streams", on.streams)];
    let names: Vec<&str> = names.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect();
    if names.is_empty() { "none".into() } else { names.join("-and-") }
}

fn prefetchers(value: &str) -> Result<Prefetchers, ProcessorError> {
    let mut on = Prefetchers::OFF;
    for word in value.split("-and-").filter(|word| *word != "none") {
        match word {
            "next-line" => on.next_line = true,
            "stride" => on.stride = true,
            "streams" => on.streams = true,
            _ => {
                return Err(unknown(
                    word,
                    "prefetcher",
                    "prefetchers are next-line, stride and streams, or none",
                ));
            }
        }
    }
    Ok(on)
}

fn reach_text(reach: StreamReach) -> String {
    let end = if reach.crosses_pages { "crossing" } else { "page" };
    format!("{}/{}/{end}", reach.lines, reach.lines_beside_hits)
}

fn reach(value: &str) -> Result<StreamReach, ProcessorError> {
    let wanted = "write lines alone, lines beside hits, and page or crossing, such as 20/20/page";
    let wrong = || unknown(value, "reach of streams", wanted);
    let [lines, lines_beside_hits, end] = value.split('/').collect::<Vec<_>>()[..] else {
        return Err(wrong());
    };
    let known = |lines| number(lines, "number of lines").ok().filter(|lines| f64::from(*lines) <= MOST_AHEAD);
    let crosses_pages = match end {
        "page" => false,
        "crossing" => true,
        _ => return Err(wrong()),
    };
    Ok(StreamReach {
        lines: known(lines).ok_or_else(wrong)?,
        lines_beside_hits: known(lines_beside_hits).ok_or_else(wrong)?,
        crosses_pages,
    })
}

fn cache(value: &str) -> Result<CacheSize, ProcessorError> {
    let wanted = "write bytes/ways, such as 32K/8";
    let split = value.split_once('/').ok_or_else(|| unknown(value, "size of a cache", wanted))?;
    let bytes = bytes(split.0).ok_or_else(|| unknown(value, "size of a cache", wanted))?;
    Ok(CacheSize { bytes, ways: number(split.1, "number of ways")? })
}

fn tlb(value: &str) -> Result<TlbSize, ProcessorError> {
    let wanted = "write entries/ways, such as 2048/16";
    let split = value.split_once('/').ok_or_else(|| unknown(value, "size of a TLB", wanted))?;
    Ok(TlbSize { entries: number(split.0, "number of entries")?, ways: number(split.1, "number of ways")? })
}

/// Parses a number of bytes such as `32K`. The suffixes K, M and G mean 1024, 1024^2 and 1024^3. Returns `None` if the
/// text is not a number of this form.
pub fn bytes(text: &str) -> Option<u64> {
    let shift = match text.bytes().last()? {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        _ => return text.parse().ok(),
    };
    text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn number(value: &str, what: &'static str) -> Result<u32, ProcessorError> {
    value.parse().map_err(|_| unknown(value, what, "write a whole number"))
}

/// Returns the error for a word that is not recognized in the textual form of a processor or placement.
pub(crate) fn unknown(word: &str, what: &'static str, wanted: &'static str) -> ProcessorError {
    ProcessorError::Text { word: word.into(), what, wanted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_processor_is_read_as_it_was_written(
            preset in 0..Processor::names().len(),
            (l1, l2, l3) in (0u32..4, 0u32..4, 1u64..5000),
            cores in 1u32..1000,
            is_inclusive: bool,
            has_huge: bool,
            on: [bool; 3],
            (lines, lines_beside_hits, crosses_pages) in (0u32..=1024, 0u32..=1024, any::<bool>()),
        ) {
            let mut processor = Processor::by_name(Processor::names()[preset]).unwrap();
            processor.l1.bytes <<= l1;
            processor.l2.bytes <<= l2;
            processor = processor.with_last_level(l3 * 64 * 16);
            processor.l3_cores = cores;
            processor.frames = if is_inclusive { PageFrames::Same } else { PageFrames::Hashed };
            processor.l3_content = if is_inclusive { InclusionPolicy::Inclusive } else { InclusionPolicy::Victims };
            processor.l1_tlb_huge = has_huge.then_some(TlbSize { entries: 16, ways: 4 });
            processor.prefetchers = Prefetchers { next_line: on[0], stride: on[1], streams: on[2] };
            processor.streams = StreamReach { lines, lines_beside_hits, crosses_pages };
            let text = processor.to_string();
            prop_assert_eq!(text.parse::<Processor>(), Ok(processor), "{}", text);
        }

        #[test]
        fn odd_texts_are_errors(text in ".{0,20}") {
            let _ = (text.parse::<Processor>(), format!("zen3:{text}").parse::<Processor>());
        }
    }

    #[test]
    fn a_preset_is_its_name_and_a_change_stands_behind_it() {
        let processor = Processor::by_name("zen3").unwrap();
        assert_eq!(processor.to_string(), "zen3");
        assert_eq!(processor.with_last_level((6 << 20) + 500).to_string(), "zen3:l3=6291456/16");
        assert_eq!("zen3:l1=64K/16".parse::<Processor>().unwrap().l1, CacheSize { bytes: 65536, ways: 16 });
    }

    #[test]
    fn wrong_words_are_named() {
        for (text, part) in [
            ("zen9", "zen9"),
            ("zen3:l3", "`l3`"),
            ("zen3:l4=1M/8", "`l4`"),
            ("zen3:l3=1M", "`1M`"),
            ("zen3:l3=1X/8", "`1X/8`"),
            ("zen3:l3=1M/many", "`many`"),
            ("zen3:l3-content=all", "`all`"),
            ("zen3:l2=1000/8", "second-level cache"),
            ("zen3:prefetchers=stride-and-luck", "`luck`"),
            ("zen3:streams=20", "`20`"),
            ("zen3:frames=none", "`none`"),
            ("zen3:streams=9999/20/page", "`9999/20/page`"),
            ("zen3:streams=20/page", "`20/page`"),
        ] {
            let error = text.parse::<Processor>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
