//! Sums over dispatches that have something in common.

use super::{DispatchProfile, Profile};
use meganeura_core::cost::Cost;
use meganeura_core::ir::Phase;

/// What the dispatches of a bucket have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The kind of kernel.
    Family,
    /// The part of the step.
    Phase,
    /// The layer, whatever the phase.
    Layer,
    /// The layer and the phase.
    Origin,
}

impl Key {
    /// Every key, coarse ones first.
    pub const ALL: [Key; 4] = [Key::Phase, Key::Family, Key::Layer, Key::Origin];

    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Key::Family => "family",
            Key::Phase => "phase",
            Key::Layer => "layer",
            Key::Origin => "origin",
        }
    }

    fn of(self, dispatch: &DispatchProfile) -> String {
        let phase = |phase: Phase| if phase == Phase::Update { "optimiser" } else { phase.name() };
        let layer = if dispatch.origin.scope.is_empty() { "(no layer)" } else { &dispatch.origin.scope };
        match self {
            Key::Family => dispatch.family.clone(),
            Key::Phase => phase(dispatch.origin.phase).to_owned(),
            Key::Layer => layer.to_owned(),
            Key::Origin => format!("{layer}, {}", phase(dispatch.origin.phase)),
        }
    }
}

/// Dispatches with something in common, of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// What they have in common.
    pub name: String,
    /// How many there are.
    pub dispatches: usize,
    /// What they must compute and move at least.
    pub cost: Cost,
    /// Seconds that they take.
    pub seconds: f64,
    /// Seconds that they would take at the device's ceilings.
    pub least_seconds: f64,
}

impl Bucket {
    /// Floating-point operations a second.
    pub fn flops(&self) -> f64 {
        rate(self.cost.flops as f64, self.seconds)
    }

    /// Bytes a second.
    pub fn bytes(&self) -> f64 {
        rate(self.cost.bytes() as f64, self.seconds)
    }

    /// The least time over the time: 1 is as fast as the device can be.
    pub fn share_of_ceiling(&self) -> f64 {
        rate(self.least_seconds, self.seconds)
    }

    fn add(&mut self, dispatch: &DispatchProfile) {
        self.dispatches += 1;
        self.cost += dispatch.cost;
        self.seconds += dispatch.seconds;
        self.least_seconds += dispatch.least_seconds;
    }
}

impl Profile {
    /// The dispatches in buckets, the one that takes most time first.
    pub fn by(&self, key: Key) -> Vec<Bucket> {
        let mut buckets: Vec<Bucket> = Vec::new();
        for dispatch in &self.dispatches {
            let name = key.of(dispatch);
            let at = buckets.iter().position(|bucket| bucket.name == name).unwrap_or_else(|| {
                let cost = Cost::default();
                buckets.push(Bucket { name, dispatches: 0, cost, seconds: 0.0, least_seconds: 0.0 });
                buckets.len() - 1
            });
            buckets[at].add(dispatch);
        }
        buckets.sort_by(|one, two| two.seconds.total_cmp(&one.seconds));
        buckets
    }

    /// All dispatches as one bucket.
    pub fn total(&self) -> Bucket {
        let (name, cost) = ("step".to_owned(), Cost::default());
        let mut total = Bucket { name, dispatches: 0, cost, seconds: 0.0, least_seconds: 0.0 };
        self.dispatches.iter().for_each(|dispatch| total.add(dispatch));
        total
    }
}

/// 0 where no time was measured, so that rates are always numbers.
fn rate(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}
