//! `unrack compare`, the main command: the effect of each fabric on a program. [`unrack_compare`] does the work.

use crate::budget;
use crate::completions;
use crate::fail_if::{self, FailIf, ValueShape};
use crate::failure::CommandFailure;
use crate::lines::PLACEMENT_HELP;
use crate::stdout::{print_answer, print_json};
use crate::steps::{StepBar, asking};
use clap_complete::engine::ArgValueCompleter;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_compare::{
    ComparedRack, ComparisonAnswer, ComparisonFound, ComparisonQuestion, PlacementRule, compared_fabric,
};
use unrack_rack::{Protocol, Scope};
use unrack_record::{AccessUnit, Comparison, LinesResult, LinesSummary};
use unrack_units::nearest::hint;
use unrack_units::{Rate, Share, Time};

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack compare -- python3 job.py                     a quarter local, four fabrics
  unrack compare --local 10% --fabric edm,cxl -- ./program
  unrack compare --fabric edm --fail-if 'fabrics.edm.slowdown>1.05' -- ./program
  unrack compare --nodes 32 --rate 40Gbps --out runs/sort -- sort big.txt
  unrack compare --rack leaf-spine --scope rack --nodes 144 --rate 40Gbps --fabric pfabric,dctcp -- ./program
  unrack compare --budget 2m --repeat 5 -- ./program   as sure as two minutes allow
  unrack compare --access cxl -- ./program             loads and stores instead of page faults

The program runs about 16 times: natively, once captured, at five delays well above the pager's own cost, \
and at a few other local shares. It must not need a terminal, or change its input files. Its output goes to files in \
the run folder, which also gets trace.parquet, a completions table for each fabric, summary.json \
and report.html.

Every answer has a 95 % interval. Runs that other work on the machine disturbed are not used; they are repeated, \
unless most runs were disturbed. Within --budget the command waits for other work to end. Where it does not, disturbed runs are \
used, and answers are rough: marked by ~, with wider intervals. An answer that is still too uncertain is withheld, with the reason \
and what to do.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Unit in which the program accesses remote memory: `pages` by page faults, `lines` (or `cxl`) by loads and stores, or `both`
    #[arg(long, value_name = "UNIT", default_value = "pages", value_parser = parse_access)]
    access: AccessUnit,
    /// Memory that stays local: a share of the program's footprint, or a size
    #[arg(long, value_name = "SHARE", default_value = "25%")]
    local: Share,
    #[arg(long, value_name = "RULE", default_value = "interleaved", help = PLACEMENT_HELP)]
    placement: PlacementRule,
    /// Fabrics to simulate, with commas between them
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "ideal,edm,cxl,dctcp",
          value_parser = compared_fabric, add = ArgValueCompleter::new(completions::fabrics))]
    fabric: Vec<Protocol>,
    /// Network between the nodes
    #[arg(long, value_enum, default_value = "star")]
    rack: RackName,
    /// Memory that a compute blade uses
    #[arg(long, value_enum, default_value = "datacenter")]
    scope: MemoryScope,
    /// Nodes of the rack: half compute blades that all run the program, half memory blades
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=1024))]
    nodes: u32,
    /// Rate of every link, in the simulation and for injected delays
    #[arg(long, value_name = "RATE", default_value = "100Gbps")]
    rate: Rate,
    /// Pages or lines to simulate for each fabric, over all blades: of pages, from the middle of the run
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    transfers: u64,
    /// Rounds of runs. The first round has one run at each injected delay; each further round has one at the smallest and one at
    /// the largest delay. There are three more native runs than rounds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    #[arg(long, value_name = "TIME", value_parser = budget::parse, help = budget::HELP)]
    budget: Option<Time>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run folder: created, or rewritten if it has the same command, local share, fabrics and rack
    #[arg(long, value_name = "DIR", default_value = "unrack-compare")]
    out: PathBuf,
    /// Replace the run in that folder, even if it has another command or other settings
    #[arg(long)]
    replace: bool,
    /// Print summary.json instead of the table
    #[arg(long)]
    json: bool,
    #[arg(long, value_name = "EXPRESSION", help = fail_if::HELP)]
    fail_if: Option<FailIf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Network between the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum RackName {
    /// Nodes around one switch
    Star,
    /// Racks of 4 hosts that pool their NICs over CXL, as in DRack
    Drack,
    /// Racks of 16 hosts below 16 spines, with DDC's delays and buffers of 36 KiB (section 4.2)
    LeafSpine,
}

/// Part of the network where a compute blade's memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum MemoryScope {
    /// Memory blades of the same rack
    Rack,
    /// Memory blades of all racks
    Datacenter,
}

impl RackName {
    fn rack(self) -> ComparedRack {
        match self {
            RackName::Star => ComparedRack::Star,
            RackName::Drack => ComparedRack::Drack,
            RackName::LeafSpine => ComparedRack::LeafSpine,
        }
    }
}

impl MemoryScope {
    fn scope(self) -> Scope {
        match self {
            MemoryScope::Rack => Scope::Rack,
            MemoryScope::Datacenter => Scope::Datacenter,
        }
    }
}

/// Parses the value of `--access`.
fn parse_access(name: &str) -> Result<AccessUnit, String> {
    match name {
        "pages" => Ok(AccessUnit::Pages),
        "lines" | "cxl" => Ok(AccessUnit::Lines),
        "both" => Ok(AccessUnit::Both),
        _ => Err(format!("no unit of access{}", hint(name, &["pages", "lines", "cxl", "both"]))),
    }
}

/// Runs `unrack compare`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let (json, fail_if) = (args.json, args.fail_if.clone());
    let question = args.question();
    fail_if.iter().try_for_each(|limit| limit.check(&shape(&question)))?;
    let answer = question.ask(asking(&StepBar::default()))?;
    match json {
        true => print_json(&answer.found)?,
        false => print_answer(&text(&answer))?,
    }
    fail_if.iter().try_for_each(|limit| limit.judge(&answer.found))?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn question(self) -> ComparisonQuestion {
        ComparisonQuestion {
            command: self.command,
            access: self.access,
            local: self.local,
            placement: self.placement,
            fabrics: self.fabric,
            rack: self.rack.rack(),
            scope: self.scope.scope(),
            nodes: self.nodes,
            rate: self.rate,
            transfers: self.transfers,
            repeat: self.repeat,
            budget: self.budget,
            seed: self.seed,
            out: self.out,
            replace: self.replace,
        }
    }
}

/// Returns the shape of the summary, which has paths such as `lines.fabrics.edm.slowdown`.
fn shape(question: &ComparisonQuestion) -> ValueShape {
    let fabrics = || question.fabrics.iter().map(|fabric| fabric.name().into()).collect();
    let pages = ValueShape::from_type::<Comparison>().with_elements("fabrics", fabrics());
    if question.access == AccessUnit::Pages {
        return pages;
    }
    let lines = ValueShape::from_type::<LinesResult>().with_elements("fabrics", fabrics());
    let summary = ValueShape::from_type::<LinesSummary>().with("lines", lines);
    if question.access == AccessUnit::Both { summary.with("pages", pages) } else { summary }
}

/// Returns the answer as text for people.
fn text(answer: &ComparisonAnswer) -> String {
    let report = answer.report.display();
    match &answer.found {
        ComparisonFound::Pages(comparison) => {
            format!("{}\nReport: {report}\n", unrack_report::comparison_text(comparison))
        }
        ComparisonFound::Lines(summary) => {
            let pages = summary.pages.as_ref().map(|pages| unrack_report::comparison_text(pages) + "\n");
            let lines = unrack_report::lines_text(summary);
            format!("{}{lines}Report: {report}\n", pages.unwrap_or_default())
        }
    }
}
