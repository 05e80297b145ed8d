//! Tasks of the ranks of a job. Each task waits for its inputs, computes, and then sends its outputs, which are inputs
//! of other tasks.
//!
//! A task sends outputs only to tasks with higher numbers. Therefore the dependencies have no cycle, and a job ends
//! whatever the order in which messages arrive.

use crate::source::TaskLoads;
use unrack_units::Time;

/// Tasks of one round of a job, such as a superstep or an iteration. The round is over when all of its tasks are done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tasks {
    tasks: Vec<JobTask>,
    /// Outputs of all tasks, grouped by the task that sends them.
    outputs: Vec<TaskOutput>,
    /// Requests as pairs of tasks: the completion of the first task answers a request that the completion of the second
    /// task issued. Sorted by the first task.
    requests: Vec<(u32, u32)>,
    /// Memory loads of the tasks that load data, sorted by task.
    loads: Vec<(u32, TaskLoads)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JobTask {
    rank: u32,
    inputs: u32,
    /// Index of the task's first output. The outputs of the task end where those of the next task begin.
    first: u32,
    core: CoreUse,
}

/// Use of a rank's core by a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreUse {
    /// The task computes on the core of its rank for this time. If the time is zero and the task has no loads that take
    /// time, it needs no core.
    Computes(Time),
    /// The task computes for this time on the first core that becomes idle, among the cores of all ranks with such
    /// tasks.
    Anywhere(Time),
    /// The task occupies the core of its rank in order to send. The core remains occupied until a task that frees it is
    /// done.
    Keeps,
    /// The task frees the core of its rank, which an earlier task has occupied to send.
    Frees,
}

/// Output of a task, which is an input of another task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskOutput {
    pub to: u32,
    /// Bytes of the message that carries the output. 0 means that there is no message, so that the input arrives at
    /// once.
    pub bytes: u64,
}

impl Tasks {
    /// Returns the number of tasks.
    pub fn len(&self) -> u32 {
        self.tasks.len() as u32
    }

    /// Returns whether there are no tasks in this round.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns the rank to which a task belongs.
    pub fn rank_of(&self, task: u32) -> u32 {
        self.tasks[task as usize].rank
    }

    /// Returns the number of inputs that a task waits for.
    pub fn inputs_of(&self, task: u32) -> u32 {
        self.tasks[task as usize].inputs
    }

    /// Returns how a task uses the core of its rank.
    pub fn core_of(&self, task: u32) -> CoreUse {
        self.tasks[task as usize].core
    }

    /// Returns the computing time of a task, excluding its memory loads.
    pub fn compute_of(&self, task: u32) -> Time {
        match self.core_of(task) {
            CoreUse::Computes(time) | CoreUse::Anywhere(time) => time,
            CoreUse::Keeps | CoreUse::Frees => Time::ZERO,
        }
    }

    /// Returns the outputs of a task.
    pub fn outputs_of(&self, task: u32) -> &[TaskOutput] {
        let next = self.tasks.get(task as usize + 1).map_or(self.outputs.len(), |next| next.first as usize);
        &self.outputs[self.tasks[task as usize].first as usize..next]
    }

    /// Returns the task whose completion issued the request that the completion of `task` answers, or `None` if `task`
    /// answers no request.
    pub fn asked_by(&self, task: u32) -> Option<u32> {
        let found = self.requests.binary_search_by_key(&task, |request| request.0).ok()?;
        Some(self.requests[found].1)
    }

    /// Returns the memory loads of a task while it computes.
    pub fn loads_of(&self, task: u32) -> TaskLoads {
        let found = self.loads.binary_search_by_key(&task, |loads| loads.0);
        found.map_or(TaskLoads::default(), |place| self.loads[place].1)
    }

    /// Returns whether this round has requests.
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Returns the sending rank, the receiving rank and the bytes of each message in this round.
    pub fn messages(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        let of_task = move |task: u32| {
            let sent = self.outputs_of(task).iter().filter(|output| output.bytes > 0);
            sent.map(move |output| (self.rank_of(task), self.rank_of(output.to), output.bytes))
        };
        (0..self.len()).flat_map(of_task)
    }

    /// Returns the sum of the computing times of all tasks.
    pub fn computed(&self) -> Time {
        (0..self.len()).map(|task| self.compute_of(task)).sum()
    }
}

/// Builder of [`Tasks`].
#[derive(Debug, Clone, Default)]
pub struct Builder {
    /// Rank of each task, and how the task uses the core of its rank.
    tasks: Vec<(u32, CoreUse)>,
    /// Outputs as tuples of the sending task, the receiving task and the bytes.
    outputs: Vec<(u32, u32, u64)>,
    requests: Vec<(u32, u32)>,
    loads: Vec<(u32, TaskLoads)>,
}

impl Builder {
    /// Creates a builder without tasks.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Adds a task of a rank, which computes for this time. Returns the number of the task, which is higher than those
    /// of all existing tasks.
    pub fn task(&mut self, rank: u32, compute: Time) -> u32 {
        self.with_core(rank, CoreUse::Computes(compute))
    }

    /// Adds a task that can be computed by any rank that has such tasks, because all of these ranks can access the same
    /// data. The outputs of the task are sent by `rank`.
    pub fn anywhere(&mut self, rank: u32, compute: Time) -> u32 {
        self.with_core(rank, CoreUse::Anywhere(compute))
    }

    /// Adds a task that occupies the core of its rank in order to send. The core remains occupied until a task made by
    /// [`Builder::frees`] is done.
    pub fn keeps(&mut self, rank: u32) -> u32 {
        self.with_core(rank, CoreUse::Keeps)
    }

    /// Adds a task that frees the core that a task made by [`Builder::keeps`] has occupied.
    pub fn frees(&mut self, rank: u32) -> u32 {
        self.with_core(rank, CoreUse::Frees)
    }

    fn with_core(&mut self, rank: u32, core: CoreUse) -> u32 {
        self.tasks.push((rank, core));
        self.tasks.len() as u32 - 1
    }

    /// Adds one task without computation for each rank, in the order of ranks. Returns the number of the first of these
    /// tasks.
    pub fn layer(&mut self, ranks: u32) -> u32 {
        let first = self.tasks.len() as u32;
        self.tasks.extend((0..ranks).map(|rank| (rank, CoreUse::Computes(Time::ZERO))));
        first
    }

    /// Makes the task `to` wait until the task `from` is done.
    pub fn after(&mut self, from: u32, to: u32) {
        self.send(from, to, 0);
    }

    /// Makes the task `to` wait for `bytes` bytes, which the task `from` sends when it is done. No message is sent if
    /// the two tasks belong to the same rank.
    ///
    /// # Panics
    /// If `to` does not come after `from`.
    pub fn send(&mut self, from: u32, to: u32, bytes: u64) {
        assert!(from < to && (to as usize) < self.tasks.len(), "outputs go to later tasks");
        let inside = self.tasks[from as usize].0 == self.tasks[to as usize].0;
        self.outputs.push((from, to, if inside { 0 } else { bytes }));
    }

    /// Records that the completion of the task `answered` answers a request that the completion of the task `asked`
    /// issued.
    pub fn request(&mut self, asked: u32, answered: u32) {
        self.requests.push((answered, asked));
    }

    /// Returns the rank of a task.
    pub fn rank_of(&self, task: u32) -> u32 {
        self.tasks[task as usize].0
    }

    /// Sets the memory loads of `task` while it computes. This function may be called at most once for each task.
    pub fn loads(&mut self, task: u32, loads: TaskLoads) {
        if !loads.is_empty() {
            self.loads.push((task, loads));
        }
    }

    /// Returns the tasks.
    pub fn finish(self) -> Tasks {
        let Builder { tasks, outputs, mut requests, mut loads } = self;
        requests.sort_unstable();
        loads.sort_unstable_by_key(|(task, _)| *task);
        let mut all: Vec<JobTask> =
            tasks.into_iter().map(|(rank, core)| JobTask { rank, inputs: 0, first: 0, core }).collect();
        // A counting sort preserves the order of the outputs of each task.
        for (from, to, _) in &outputs {
            all[*from as usize].first += 1;
            all[*to as usize].inputs += 1;
        }
        let mut next = 0;
        for task in &mut all {
            next += std::mem::replace(&mut task.first, next);
        }
        let mut place: Vec<u32> = all.iter().map(|task| task.first).collect();
        let mut sorted = vec![TaskOutput { to: 0, bytes: 0 }; outputs.len()];
        for (from, to, bytes) in outputs {
            let place = &mut place[from as usize];
            sorted[*place as usize] = TaskOutput { to, bytes };
            *place += 1;
        }
        Tasks { tasks: all, outputs: sorted, requests, loads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_stay_in_their_order() {
        let mut builder = Builder::new();
        let [a, b] = [0, 1].map(|rank| builder.task(rank, Time::from_us(1)));
        let (c, d) = (builder.task(1, Time::ZERO), builder.task(0, Time::from_us(2)));
        builder.send(b, c, 5);
        builder.send(a, d, 6);
        builder.send(a, c, 5 << 30);
        builder.after(c, d);
        builder.request(a, d);
        let tasks = builder.finish();
        assert_eq!(
            tasks.outputs_of(a),
            [TaskOutput { to: d, bytes: 0 }, TaskOutput { to: c, bytes: 5 << 30 }]
        );
        assert_eq!(tasks.outputs_of(b), [TaskOutput { to: c, bytes: 0 }]);
        assert_eq!([a, b, c, d].map(|task| tasks.inputs_of(task)), [0, 0, 2, 2]);
        assert_eq!(tasks.messages().collect::<Vec<_>>(), [(0, 1, 5 << 30)]);
        assert_eq!(tasks.asked_by(d), Some(a));
        assert_eq!(tasks.computed(), Time::from_us(4));
    }

    #[test]
    #[should_panic(expected = "later tasks")]
    fn a_cycle_cannot_be_built() {
        let mut builder = Builder::new();
        let (a, b) = (builder.task(0, Time::ZERO), builder.task(1, Time::ZERO));
        builder.after(a, b);
        builder.after(b, a);
    }
}
