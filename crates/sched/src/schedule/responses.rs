//! Responses along chains: the response of a task is the release jitter of its successors.

use super::{Config, ScheduleError};
use crate::demand::Order;
use crate::graph::Graph;
use crate::links::Links;
use crate::{Analysis, Counted, Nanos, QueueConfig, Response, Task, TaskError, Verdict, analyse};

/// The greatest number of rounds in which responses become jitter.
const ROUNDS: usize = 64;

/// Tasks with their computed jitter, blocking and deadlines, their verdicts, and the ceilings of
/// resources.
pub(super) struct Responses {
    pub tasks: Vec<Task>,
    pub analysis: Analysis,
    pub ceilings: Vec<Option<u32>>,
}

impl Graph {
    pub(super) fn respond(
        &self,
        links: &Links,
        queues: &[QueueConfig],
        config: &Config,
    ) -> Result<Responses, ScheduleError> {
        let by_arrival = queues.iter().all(|queue| queue.order == Order::Arrival);
        if by_arrival { self.hand_on(links, queues, config) } else { self.share_out(links, queues, config) }
    }

    /// In order of arrival: responses become jitter of the successors, until nothing changes.
    fn hand_on(
        &self,
        links: &Links,
        queues: &[QueueConfig],
        config: &Config,
    ) -> Result<Responses, ScheduleError> {
        let mut tasks: Vec<Task> = links.all.iter().map(|link| link.task.clone()).collect();
        let ceilings = self.block(&mut tasks, links, queues)?;
        let levels = levels(queues);
        let analysis = settle(&mut tasks, links, &levels, |tasks| {
            analyse(tasks, &levels, config.preemption, config.one_thread_per_level)
        })?;
        Ok(Responses { tasks, analysis, ceilings })
    }

    /// By deadline or laxity, where a response is only known to be within its deadline: a task with
    /// successors has a share of the end-to-end time as deadline. Tries the ways of
    /// [`Links::shares`], and takes the first that holds, otherwise the one with the most deadlines
    /// met.
    fn share_out(
        &self,
        links: &Links,
        queues: &[QueueConfig],
        config: &Config,
    ) -> Result<Responses, ScheduleError> {
        let earliest = links.earliest();
        let cannot: Vec<usize> =
            (0..links.all.len()).filter(|at| links.all[*at].task.deadline < earliest[*at]).collect();
        let levels = levels(queues);
        let (mut shares, mut late) = (links.shares(), None);
        let mut best: Option<(usize, Responses)> = None;
        while let Some(points) = shares.next_even(late) {
            let mut tasks = timed(links, &points, cannot.is_empty());
            let ceilings = self.block(&mut tasks, links, queues)?;
            let mut analysis = analyse(&tasks, &levels, config.preemption, config.one_thread_per_level)?;
            for at in &cannot {
                analysis.verdicts[*at].response = Response::Over(earliest[*at]);
            }
            let lost = lost(links, &levels, &analysis, |at| cannot.contains(&at));
            let analysis = without(analysis, &lost);
            let holds = analysis.schedulable();
            let over = |verdict: &Verdict| matches!(verdict.response, Response::Over(_));
            late = analysis.verdicts.iter().position(over);
            let met = analysis.verdicts.iter().filter(|verdict| verdict.met()).count();
            if best.as_ref().is_none_or(|(most, _)| met > *most) {
                best = Some((met, Responses { tasks, analysis, ceilings }));
            }
            if holds || !cannot.is_empty() {
                break;
            }
        }
        match best {
            Some((_, found)) => Ok(found),
            None => self.hand_on(links, queues, config),
        }
    }
}

fn levels(queues: &[QueueConfig]) -> Vec<(u32, Order)> {
    queues.iter().map(|queue| (queue.level, queue.order)).collect()
}

/// The tasks with their intermediate deadlines, released as late as their predecessors may be done.
/// If a chain is not possible (`whole` is false), each task counts for itself.
fn timed(links: &Links, points: &[Nanos], whole: bool) -> Vec<Task> {
    let released = links.releases(points);
    let task = |(at, link): (usize, &crate::links::Link)| {
        let task = link.task.clone().counted(Counted::FromReadiness);
        if whole { task.deadline(points[at]).jitter(released[at]) } else { task }
    };
    links.all.iter().enumerate().map(task).collect()
}

/// Repeats the analysis, each time with the jitter that follows from the responses before.
fn settle(
    tasks: &mut [Task],
    links: &Links,
    levels: &[(u32, Order)],
    analyse: impl Fn(&[Task]) -> Result<Analysis, TaskError>,
) -> Result<Analysis, TaskError> {
    // Tasks without any time left after the jitter of a predecessor, and when they would be done.
    let mut beyond: Vec<Option<Nanos>> = vec![None; tasks.len()];
    for _ in 0..ROUNDS {
        let mut analysis = analyse(tasks)?;
        for (verdict, done) in analysis.verdicts.iter_mut().zip(&beyond) {
            verdict.response = done.map_or(verdict.response, Response::Over);
        }
        let lost = lost(links, levels, &analysis, |at| beyond[at].is_some());
        let mut changed = false;
        for (at, link) in links.all.iter().enumerate().filter(|(at, _)| !lost[*at]) {
            let bound = |before: usize| analysis.verdicts[before].response.bound().unwrap_or_default();
            let late = link.after.iter().map(|(before, wait)| bound(*before).plus(*wait)).max();
            let jitter = link.stream.wait.plus(late.unwrap_or_default());
            if jitter > tasks[at].jitter {
                let before = std::mem::replace(&mut tasks[at].jitter, jitter);
                changed = true;
                if tasks[at].check().is_err() {
                    // The task stays valid; its verdict has the response.
                    tasks[at].jitter = before;
                    beyond[at] = Some(jitter.plus(tasks[at].cost));
                }
            }
        }
        if !changed {
            return Ok(without(analysis, &lost));
        }
    }
    let analysis = analyse(tasks)?;
    Ok(without(analysis, &vec![true; tasks.len()]))
}

/// The tasks without a known bound, because one is late: the late task, its successors, and all
/// tasks that are at most as urgent as a task without a bound. In order of arrival a late task
/// delays others only by its cost and period, if its release is as early as was assumed; `later`
/// names the tasks for which it is not.
fn lost(
    links: &Links,
    levels: &[(u32, Order)],
    analysis: &Analysis,
    later: impl Fn(usize) -> bool,
) -> Vec<bool> {
    let mut lost: Vec<bool> =
        analysis.verdicts.iter().map(|verdict| verdict.response.bound().is_none()).collect();
    let burden = |at: &usize| lost[*at] && (levels[*at].1 != Order::Arrival || later(*at));
    let mut level = (0..lost.len()).filter(burden).map(|at| levels[at].0).min().unwrap_or(u32::MAX);
    loop {
        let released = |at: usize, lost: &[bool]| links.all[at].after.iter().any(|(before, _)| lost[*before]);
        let found = |at: &usize| !lost[*at] && (released(*at, &lost) || levels[*at].0 >= level);
        let Some(at) = (0..lost.len()).find(found) else { return lost };
        lost[at] = true;
        level = level.min(levels[at].0);
    }
}

/// The results of these tasks are not reliable.
fn without(mut analysis: Analysis, lost: &[bool]) -> Analysis {
    for (verdict, _) in analysis.verdicts.iter_mut().zip(lost).filter(|(_, lost)| **lost) {
        if let Response::Bounded(time) = verdict.response {
            verdict.response = Response::Undecided(time);
        }
    }
    analysis
}
