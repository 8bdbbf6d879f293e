//! All experiments of the papers that run here.

use super::{
    BenchError, Context, attacks, banded, banded_load, clients, cremes, demux, events, footprint,
    interconnect, inversion, log_load, low_threads, memory_cost, network_load, paced, pi_mutex, scope,
    server_work, storm, tao_overhead, throughput, timer_resolution, transports, worst,
};
use crate::claim::{Claim, judge};
use crate::figure::{Measured, Outcome};

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name, which is its command.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// The paper and its figures.
    pub source: &'static str,
    /// What the paper saw.
    pub paper: &'static str,
    /// About how many seconds it takes: quick, in full.
    pub seconds: (u32, u32),
    /// Measures it.
    pub run: fn(&mut Context<'_>, &mut Measured) -> Result<(), BenchError>,
    /// What is claimed of the rows.
    pub claims: fn() -> Vec<Claim>,
}

impl Experiment {
    /// About how many seconds it takes.
    pub fn takes(&self, quick: bool) -> u32 {
        if quick { self.seconds.0 } else { self.seconds.1 }
    }

    /// Measures, and judges the claims.
    pub fn outcome(&self, cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
        let mut measured = Measured::default();
        (self.run)(cx, &mut measured)?;
        let verdict = judge(self.name, self.paper, &(self.claims)(), &measured.rows);
        Ok(Outcome { measured, verdict })
    }

    /// The one called `name`.
    pub fn named(name: &str) -> Option<&'static Experiment> {
        ALL.iter().find(|experiment| experiment.name == name)
    }
}

/// All: the worst cases, then those of the papers in their order, then others of our own.
pub const ALL: &[Experiment] = &[
    worst::EXPERIMENT,
    inversion::EXPERIMENT,
    log_load::EXPERIMENT,
    cremes::latency::EXPERIMENT,
    cremes::jitter::EXPERIMENT,
    cremes::size::EXPERIMENT,
    cremes::orb::EXPERIMENT,
    memory_cost::EXPERIMENT,
    events::timeline::EXPERIMENT,
    events::utilisation::EXPERIMENT,
    events::latency::EXPERIMENT,
    events::spacing::EXPERIMENT,
    events::dispatch_cost::EXPERIMENT,
    events::cost::EXPERIMENT,
    tao_overhead::EXPERIMENT,
    timer_resolution::EXPERIMENT,
    low_threads::EXPERIMENT,
    network_load::EXPERIMENT,
    server_work::EXPERIMENT,
    interconnect::EXPERIMENT,
    banded::EXPERIMENT,
    banded_load::EXPERIMENT,
    footprint::EXPERIMENT,
    demux::EXPERIMENT,
    scope::EXPERIMENT,
    clients::EXPERIMENT,
    paced::EXPERIMENT,
    pi_mutex::EXPERIMENT,
    storm::EXPERIMENT,
    attacks::EXPERIMENT,
    throughput::EXPERIMENT,
    transports::EXPERIMENT,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_has_a_name_of_its_own_and_a_quick_form_within_a_minute() {
        let mut names: Vec<_> = ALL.iter().map(|e| e.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for experiment in ALL {
            assert!((1..=60).contains(&experiment.takes(true)), "{}", experiment.name);
            assert!(experiment.takes(false) >= experiment.takes(true), "{}", experiment.name);
            assert!(!experiment.paper.is_empty() && !experiment.source.is_empty());
            assert_eq!(Experiment::named(experiment.name).map(|e| e.about), Some(experiment.about));
        }
        assert!(Experiment::named("nothing").is_none());
    }

    #[test]
    fn the_page_has_every_experiment_that_the_document_names() {
        let document = include_str!("../../../../docs/reference/experiments.md");
        let rows = document.lines().skip_while(|line| !line.starts_with("| command |")).skip(2);
        let cells = rows.map_while(|line| line.strip_prefix("| ")?.split_once(" |")).map(|(names, _)| names);
        let mut named: Vec<&str> =
            cells.flat_map(|names| names.split(", ")).map(|name| name.trim_matches('`')).collect();
        named.sort_unstable();
        let mut known: Vec<&str> = ALL.iter().map(|experiment| experiment.name).collect();
        known.sort_unstable();
        assert_eq!(named, known);
    }
}
