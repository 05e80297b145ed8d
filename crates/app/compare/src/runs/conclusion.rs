//! Conclusion from the runs at one local share: a fitted line of run time over delay, or the reason why there is none.

use super::survey::Survey;
use super::task::{DISTURBED, MeasurementTask, TaskResult, with_median};
use unrack_paging::{NOT_AWAY, fit, quality};
use unrack_record::{Fit, InjectionPoint, Runs, Warning};
use unrack_units::Bytes;

pub(crate) struct Conclusion {
    pub points: Vec<InjectionPoint>,
    pub fit: Option<Fit>,
    /// Reason why no conclusion is possible.
    pub withheld: Option<Warning>,
    /// Reason why the conclusion is only rough, if it is: the line was fitted to disturbed runs, too.
    pub rough: Option<Warning>,
}

impl Conclusion {
    /// Returns the fitted line of run time over delay, if conclusions can be drawn from it.
    pub(crate) fn line(&self) -> Result<&Fit, &Warning> {
        match (&self.fit, &self.withheld) {
            (_, Some(why)) => Err(why),
            (fit, None) => Ok(fit.as_ref().expect("a line, or the reason why there is none")),
        }
    }

    fn withheld(points: Vec<InjectionPoint>, why: Warning) -> Conclusion {
        Conclusion { points, fit: None, withheld: Some(why), rough: None }
    }

    /// Returns the slowdown if each fetch is delayed by `delay_ns`. A rough slowdown is always returned, because its interval is already
    /// wide.
    ///
    /// # Errors
    /// If the slowdown is withheld: the reason.
    pub(crate) fn slowdown(&self, delay_ns: f64) -> Result<fit::FitEstimate, Warning> {
        let line = self.line().map_err(Clone::clone)?;
        match self.rough {
            Some(_) => Ok(fit::slowdown(line, delay_ns)),
            None => quality::slowdown(line, delay_ns),
        }
    }
}

impl Survey<'_> {
    /// Returns the undisturbed native runs, of which the median is used. Native run times scatter in both directions, because the program
    /// does not do exactly the same each time. The minimum would be the luckiest run, whereas the runs with remote memory are only as lucky
    /// as the average.
    ///
    /// # Errors
    /// If there are too few of them: the reason.
    pub(crate) fn native(&self) -> Result<Runs, Warning> {
        let runs = self.kept.undisturbed(|task| matches!(task, MeasurementTask::Native { .. }));
        match runs.len() < quality::FEWEST_NATIVE {
            true => Err(self.too_few("native runs", runs.len(), quality::FEWEST_NATIVE)),
            false => Ok(with_median(runs.iter().map(|(_, done)| done.wall_s).collect())),
        }
    }

    /// Returns all native runs, including disturbed ones, if there are enough of them.
    fn rough_native(&self) -> Option<Runs> {
        let runs = self.kept.all(|task| matches!(task, MeasurementTask::Native { .. }));
        let is_enough = runs.len() >= quality::FEWEST_NATIVE;
        is_enough.then(|| with_median(runs.iter().map(|done| done.wall_s).collect()))
    }

    /// Returns the undisturbed native runs, or all native runs if other work disturbed too many of them.
    ///
    /// # Errors
    /// If even all native runs are too few: the reason.
    pub(crate) fn any_native(&self) -> Result<Runs, Warning> {
        self.native().or_else(|why| self.rough_native().filter(|_| why.key == DISTURBED).ok_or(why))
    }

    /// Draws the conclusion from the runs with `local` memory. It uses the undisturbed runs. If these are too few, it uses all runs, and
    /// the conclusion is rough.
    pub(crate) fn conclude(&self, local: Bytes) -> Conclusion {
        let runs = self.delayed(local, ConcludedRuns::Undisturbed);
        let points = self.points(runs.clone());
        if let Some(why) = self.not_away(local) {
            return Conclusion::withheld(points, why);
        }
        match self.native().and_then(|native| self.enough(&points).map(|()| native)) {
            Ok(native) => {
                let fit = through(&points, &native.seconds, self.runner.seed);
                let withheld = refusal(&fit, native.median_s, &runs);
                Conclusion { points, fit: Some(fit), withheld, rough: None }
            }
            Err(why) if why.key == DISTURBED => {
                self.roughly(local).unwrap_or_else(|| Conclusion::withheld(points, why))
            }
            Err(why) => Conclusion::withheld(points, why),
        }
    }

    /// Draws the conclusion from all runs, including disturbed ones. The interval is widened by the time that other work may have added.
    /// `None` if even all runs are too few.
    fn roughly(&self, local: Bytes) -> Option<Conclusion> {
        let runs = self.delayed(local, ConcludedRuns::All);
        let points = self.points(runs.clone());
        let native = self.rough_native()?;
        self.enough(&points).ok()?;
        let natives = self.kept.all(|task| matches!(task, MeasurementTask::Native { .. }));
        let lost = natives.iter().chain(runs.iter().map(|(_, done)| done)).map(|done| done.lost);
        let lost = lost.fold(0.0, f64::max);
        let fit = quality::widened(&through(&points, &native.seconds, self.runner.seed), lost);
        let withheld = refusal(&fit, native.median_s, &runs);
        let text = format!(
            "ROUGH: other work disturbed the runs, the last because {}, and may have taken up to {:.0} % of their time: they are used \
             all the same, and intervals are wider by that; run it again on an idle machine, or give a larger --budget, within which \
             to wait for one",
            self.last_reason(),
            lost * 100.0
        );
        let rough = withheld.is_none().then(|| Warning::new("rough", text));
        Some(Conclusion { points, fit: Some(fit), withheld, rough })
    }

    /// Returns the reason why the runs with `local` memory cannot be used, if some of them had more memory local than that.
    fn not_away(&self, local: Bytes) -> Option<Warning> {
        let is_one =
            |task| matches!(task, MeasurementTask::Remote { local_bytes, .. } if local_bytes == local.get());
        let runs = self.kept.all(is_one);
        let not_away = runs.iter().filter(|done| done.not_away).count();
        let text = format!(
            "{not_away} of {} runs had more local memory than the {:.0} MiB they may have: what is remote there is not \
             known, so nothing is concluded (see the warnings of `unrack run`)",
            runs.len(),
            local.get() as f64 / (1 << 20) as f64
        );
        (not_away > 0).then(|| Warning::new(NOT_AWAY, text))
    }

    fn enough(&self, points: &[InjectionPoint]) -> Result<(), Warning> {
        let runs = points.iter().map(|point| point.runs.seconds.len()).sum::<usize>();
        if runs < quality::FEWEST_RUNS {
            return Err(self.too_few("runs with injected delays", runs, quality::FEWEST_RUNS));
        }
        match points.len() < quality::FEWEST_DELAYS {
            true => Err(self.too_few("delays with runs", points.len(), quality::FEWEST_DELAYS)),
            false => Ok(()),
        }
    }

    /// Returns the runs grouped by delay, smallest delay first.
    fn points(&self, mut runs: Vec<(f64, TaskResult)>) -> Vec<InjectionPoint> {
        runs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.wall_s.total_cmp(&b.1.wall_s)));
        let groups = runs.chunk_by(|a, b| a.0 == b.0);
        let point = |group: &[(f64, TaskResult)]| {
            let middle = group[group.len() / 2].1;
            InjectionPoint {
                delay_ns: self.runner.delay(group[0].0).mean_ns(),
                runs: with_median(group.iter().map(|(_, done)| done.wall_s).collect()),
                fetches: middle.fetches,
                write_backs: middle.write_backs,
            }
        };
        groups.map(point).collect()
    }

    /// Returns the runs with injected delays, together with their delays in ns.
    fn delayed(&self, local: Bytes, whose: ConcludedRuns) -> Vec<(f64, TaskResult)> {
        let is_wanted = |task| {
            matches!(task, MeasurementTask::Remote { local_bytes, delay_ns, .. }
            if local_bytes == local.get() && delay_ns > 0.0)
        };
        let runs = match whose {
            ConcludedRuns::Undisturbed => self.kept.undisturbed(is_wanted),
            ConcludedRuns::All => self.kept.with_disturbed(is_wanted),
        };
        runs.into_iter().map(|(task, done)| (delay(task), done)).collect()
    }
}

/// Runs from which a conclusion is drawn.
#[derive(Clone, Copy)]
enum ConcludedRuns {
    Undisturbed,
    All,
}

/// Returns the reason why no conclusion may be drawn from the line fitted to the runs, if there is one.
fn refusal(fit: &Fit, native_s: f64, runs: &[(f64, TaskResult)]) -> Option<Warning> {
    let (overhead_s, delay_s) = beside_the_waits(runs, fit.waits);
    quality::refusal(fit, native_s, overhead_s, delay_s)
}

/// Returns two means over the runs, in seconds: the time that the pager takes in addition to the injected delays, and the delay of a fetch.
/// `waits` is the number of waits on the critical path, by the fitted line.
fn beside_the_waits(runs: &[(f64, TaskResult)], waits: f64) -> (f64, f64) {
    let mean =
        |of: &dyn Fn(&(f64, TaskResult)) -> f64| runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64;
    let lost_s = mean(&|(_, done)| done.overhead_s + done.late_s);
    // The overhead of fetches that overlap counts once.
    let overlap = if waits > 0.0 { mean(&|(_, done)| done.fetches as f64) / waits } else { 1.0 };
    (lost_s / overlap.max(1.0), mean(&|(delay_ns, _)| delay_ns / 1e9))
}

fn delay(task: MeasurementTask) -> f64 {
    match task {
        MeasurementTask::Native { .. } => 0.0,
        MeasurementTask::Remote { delay_ns, .. } => delay_ns,
    }
}

fn through(points: &[InjectionPoint], native_s: &[f64], seed: u64) -> Fit {
    let point =
        |point: &InjectionPoint, run_s: &f64| fit::FitPoint { delay_ns: point.delay_ns, run_s: *run_s };
    let all: Vec<_> = points.iter().flat_map(|p| p.runs.seconds.iter().map(move |s| point(p, s))).collect();
    fit::line(&all, native_s, seed).expect("enough runs at different delays, all of which took some time")
}
