//! `unrack study`: compares published results of papers with those of Unrack.

mod check;
mod programs;

use crate::completions;
use crate::failure::{CommandFailure, say};
use crate::folder;
use crate::points_bar::PointsBar;
use crate::stdout::print;
use clap_complete::engine::ArgValueCompleter;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use unrack_build::build;
use unrack_grid::runner::cores;
use unrack_record::{
    HostRow, KeptPoints, Machine, RunFolder, RunPurpose, StartedCommand, atomic_write, read_json, write_json,
};
use unrack_report::write_svgs;
use unrack_study::charts::charts;
use unrack_study::costs::MeasuredCosts;
use unrack_study::page::{PICTURES, StudyOutcome, markdown};
use unrack_study::programs::values;
use unrack_study::run::run_seeds;
use unrack_study::seeds::MOST_SEEDS;
use unrack_study::stored::StoredValues;
use unrack_study::{Compared, Study, StudyError, StudyResults, StudyScale, Verdict, computed, figure};
use unrack_units::nearest::hint;

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack study list
  unrack study run edm/fig8a
  unrack study run all --quick
  unrack study run r2c2/fig7 r2c2/fig8
  bench/sockets.sh --costs costs.json && unrack study run drack/fig13 --costs costs.json
  sudo unrack study run trust/kernel-swap --out runs/trust   seventeen programs
  unrack study run all --out runs/studies --json | jq '.studies[].figures[] | select(.verdict == \"missed\")'
  unrack study run all --seeds 3 --store studies/ours.json
  unrack study check edm/fig8a r2c2/fig17
  unrack study check --quick

The folder of --out gets studies.md with its charts, results.json, and each finished point. Run again, it simulates \
only points that are new, or that another build computed. A full run of all studies takes minutes. The exit status \
is 1 if a figure is missed and no run demonstrates the cause, if our value has left its stored band, or if a figure was not measured; \
a quick run has too few messages to judge ratios and orders. `unrack study check` breaks the mechanisms that the files of the studies \
name, and lists the rows that notice. Its exit status is 1 if none of a study's rows notices any break.";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Lists the studies
    List,
    /// Runs studies, and writes their page
    Run(StudyRun),
    /// Breaks mechanisms on purpose, and lists the rows of studies that notice
    Check(check::StudyCheck),
}

#[derive(clap::Args)]
struct StudyRun {
    /// Studies as `unrack study list` names them, or `all` for all that do not measure this machine
    #[arg(required = true, value_name = "NAME|all", add = ArgValueCompleter::new(completions::studies))]
    names: Vec<String>,
    /// Run fewer points and messages, which takes seconds
    #[arg(long)]
    quick: bool,
    /// Simulate studies that use a machine's costs a second time, with the costs that `bench/sockets.sh --costs FILE` measured
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write results to this folder, and take finished points from it
    #[arg(long, value_name = "DIR", default_value = "runs/studies")]
    out: PathBuf,
    /// Replace the page in that folder even if it shows studies that this run lacks
    #[arg(long)]
    replace: bool,
    /// Run every point with this number of seeds; figures are means, with 95 % intervals
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SEEDS)))]
    seeds: u32,
    /// Also write our values to this file, as those that later runs must keep
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

/// Results of all studies: `results.json`.
#[derive(Serialize)]
struct StudyReport<'a> {
    version: &'a str,
    quick: bool,
    studies: Vec<FoundStudy<'a>>,
}

/// Output of `--json`: the results, and the use of the machine's resources.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    found: StudyReport<'a>,
    machine: Machine,
}

/// Parts of the `results.json` of an earlier run.
#[derive(Deserialize)]
struct Earlier {
    quick: bool,
    studies: Vec<EarlierStudy>,
}

#[derive(Deserialize)]
struct EarlierStudy {
    name: String,
}

#[derive(Serialize)]
struct FoundStudy<'a> {
    name: &'a str,
    title: &'a str,
    source: &'a str,
    figures: &'a [Compared],
    points: &'a StudyResults,
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<&'a MeasuredCosts>,
}

/// Runs `unrack study`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let studies = unrack_study::all()?;
    match args.verb {
        Verb::List => {
            let line = |study: &Study| {
                let measured = if study.measured { " (measured here, not in `all`)" } else { "" };
                format!("{:18} {}{measured}\n", study.name, study.title)
            };
            print(&studies.iter().map(line).collect::<String>())?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Run(args) => args.run(studies),
        Verb::Check(args) => args.run(studies),
    }
}

impl StudyRun {
    fn run(&self, studies: Vec<Study>) -> Result<ExitCode, CommandFailure> {
        let started = StartedCommand::now(build());
        let chosen = chosen(&self.names, &studies)?;
        let scale = if self.quick { StudyScale::Quick } else { StudyScale::Full };
        let costs = self.costs.as_deref().map(MeasuredCosts::load).transpose()?;
        let with_costs: Vec<Option<Study>> =
            chosen.iter().map(|study| costs.as_ref()?.applied(study)).collect();
        if costs.is_some() && with_costs.iter().all(Option::is_none) {
            return Err(CommandFailure::Usage(
                "none of these studies takes measured costs: leave out --costs, or name drack/fig13".into(),
            ));
        }
        let folder = self.folder(&chosen)?;
        let kept = KeptPoints::open(folder.path("points"), &build())?;
        let again: Vec<Study> = with_costs.iter().flatten().cloned().collect();
        let all = [&chosen[..], &again[..]].concat();
        let mut results = run_seeds(&all, (scale, self.seeds), &kept, cores(), &PointsBar::new(None))?;
        let mut again = results.split_off(chosen.len()).into_iter();
        for (study, results) in chosen.iter().zip(&mut results) {
            results.programs = programs::run(study, scale, &folder)?;
        }
        let both = || chosen.iter().zip(&results);
        let mut figures: Vec<Vec<Compared>> = both()
            .map(|(study, results)| {
                let mut computed = computed::figures(&study.name, scale);
                computed.extend(values(&study.programs, &results.programs));
                figure::compare(study, results, &computed, scale)
            })
            .collect();
        for (figures, study) in figures.iter_mut().zip(&with_costs) {
            if let (Some(study), Some(costs)) = (study, &costs)
                && let Some(results) = again.next()
            {
                let simulated = figure::compare(study, &results, &computed::Computed::new(), scale);
                costs.beside(figures, &study.figures, &simulated);
            }
        }
        let done: Vec<StudyOutcome> = both()
            .zip(&figures)
            .zip(&with_costs)
            .map(|(((study, results), figures), with)| StudyOutcome {
                study,
                results,
                figures,
                costs: costs.as_ref().filter(|_| with.is_some()),
            })
            .collect();
        self.write(&studies, &done, &started)?;
        if let Some(path) = &self.store {
            store(path, scale, &done)?;
        }
        let text = match self.json {
            true => {
                let printed = Printed { found: self.found(&done), machine: started.machine() };
                serde_json::to_string(&printed).map_err(|why| CommandFailure::Failed(why.to_string()))? + "\n"
            }
            false => table(&done),
        };
        print(&text)?;
        say(&format!("wrote {}", self.out.join("studies.md").display()));
        Ok(ExitCode::from(u8::from(figures.iter().flatten().any(|figure| figure::fails(figure, scale)))))
    }

    /// Creates the folder, unless a page in it would be lost: a run may replace the page of an earlier run only if it includes all studies
    /// of that run.
    fn folder(&self, chosen: &[Study]) -> Result<RunFolder, CommandFailure> {
        let earlier = read_json::<Earlier>(self.out.join("results.json")).ok().filter(|_| !self.replace);
        if let Some(earlier) = earlier {
            let is_chosen = |name: &str| chosen.iter().any(|study| study.name == name);
            let lost = earlier.studies.iter().find(|study| !is_chosen(&study.name));
            let lost = lost.map(|study| format!("{}, which this run lacks", study.name));
            let other = if earlier.quick { "a quick run" } else { "a full run" };
            if let Some(lost) = lost.or((earlier.quick != self.quick).then(|| other.into())) {
                return Err(CommandFailure::Usage(format!(
                    "{} has the results of {lost}: name another folder, or give --replace to replace its page \
                     (finished points are kept)",
                    self.out.display()
                )));
            }
        }
        folder::create(&self.out, &RunPurpose::new("study", self.names.join(" "), ""), self.replace)
    }

    fn write(
        &self,
        studies: &[Study],
        done: &[StudyOutcome],
        started: &StartedCommand,
    ) -> Result<(), CommandFailure> {
        for StudyOutcome { study, results, .. } in done {
            write_svgs(&charts(study, results), self.out.join(PICTURES))?;
        }
        let HostRow { cpu, cores, kernel, .. } = started.machine().host;
        let machine = format!("{cpu}, {cores} cores, Linux {kernel}");
        atomic_write(self.out.join("studies.md"), markdown(studies, done, &machine).as_bytes())?;
        write_json(self.out.join("results.json"), &self.found(done))?;
        let settings = serde_json::json!({ "studies": self.names, "quick": self.quick });
        Ok(write_json(self.out.join("manifest.json"), &started.manifest(0, None, settings))?)
    }

    fn found<'a>(&self, done: &'a [StudyOutcome]) -> StudyReport<'a> {
        let one = |done: &StudyOutcome<'a>| FoundStudy {
            name: &done.study.name,
            title: &done.study.title,
            source: &done.study.source,
            figures: done.figures,
            points: done.results,
            costs: done.costs,
        };
        let studies = done.iter().map(one).collect();
        StudyReport { version: env!("CARGO_PKG_VERSION"), quick: self.quick, studies }
    }
}

/// Returns the studies of these names. `all` means all that do not measure the machine.
fn chosen(names: &[String], studies: &[Study]) -> Result<Vec<Study>, CommandFailure> {
    let known = |name: &String| name == "all" || studies.iter().any(|study| study.name == *name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        let names: Vec<_> = studies.iter().map(|study| study.name.as_str()).chain(["all"]).collect();
        return Err(CommandFailure::Usage(format!("no study is called `{name}`{}", hint(name, &names))));
    }
    let asked =
        |study: &&Study| names.iter().any(|name| (name == "all" && !study.measured) || *name == study.name);
    Ok(studies.iter().filter(asked).cloned().collect())
}

/// Replaces what a file stores of the studies of a run.
fn store(path: &Path, scale: StudyScale, done: &[StudyOutcome]) -> Result<(), CommandFailure> {
    let mut stored = if path.exists() { read_json(path)? } else { StoredValues::default() };
    done.iter().for_each(|done| stored.replace(done.study, scale, done.figures));
    write_json(path, &stored)?;
    say(&format!("wrote {}", path.display()));
    Ok(())
}

/// Returns the figures of each study, as text for people.
fn table(done: &[StudyOutcome]) -> String {
    let mut text = String::new();
    for StudyOutcome { study, figures, .. } in done {
        text += &format!("{}: {}\n", study.name, study.title);
        for figure in *figures {
            text += &format!("  {:12} {}\n", verdict(figure), figure.what);
            if figure.table.is_none() && !figure.ours.is_empty() {
                let unit = if figure.unit.is_empty() { String::new() } else { format!(" {}", figure.unit) };
                let published = match figure.published.as_str() {
                    "" => String::new(),
                    published => format!("published {published}{unit}, "),
                };
                let more: String =
                    [("with measured costs", &figure.with_costs), ("measured", &figure.measured)]
                        .into_iter()
                        .filter_map(|(name, value)| Some(format!(", {name} {}{unit}", value.as_ref()?)))
                        .collect();
                text += &format!("  {:12} {published}ours {}{unit}{more}\n", "", figure.ours);
            }
            if !figure.sentence.is_empty() && figure.verdict != Verdict::Met {
                text += &format!("  {:12} {}\n", "", figure.sentence);
            }
            if figure.stored.as_ref().is_some_and(|stored| !stored.held) {
                text += &format!("  {:12} Our value has left its stored band.\n", "CHANGED");
            }
        }
        text.push('\n');
    }
    text
}

fn verdict(figure: &Compared) -> &'static str {
    match figure.verdict {
        Verdict::Met => "met",
        Verdict::CannotFail => "cannot fail",
        Verdict::Missed => "OPEN",
        Verdict::Explained => "explained",
        Verdict::Stated => "differs",
        Verdict::Alone => "ours alone",
        Verdict::LeftOut => "not run",
        Verdict::Withheld => "WITHHELD",
        Verdict::NotMeasured => "NOT MEASURED",
    }
}

impl From<StudyError> for CommandFailure {
    fn from(error: StudyError) -> CommandFailure {
        match error {
            StudyError::Record(error) => CommandFailure::from(error),
            StudyError::File { .. } | StudyError::Scenario { .. } | StudyError::Costs { .. } => {
                CommandFailure::Usage(error.to_string())
            }
        }
    }
}
