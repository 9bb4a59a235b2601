//! What was measured, step by step.

use super::event::Event;

/// Series of losses and metrics over the steps of a training.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct History {
    series: Vec<Series>,
}

#[derive(Clone, Debug, PartialEq)]
struct Series {
    name: String,
    validation: bool,
    points: Vec<(u64, f64)>,
}

impl History {
    /// The series that reports of steps make.
    pub(super) const OF_STEPS: [&str; 3] = ["loss", "rate", "gradient_norm"];

    /// Adds a value, of a validation or of a training step, measured after `step` steps.
    pub fn record(&mut self, name: &str, validation: bool, step: u64, value: f64) {
        let same = |series: &Series| series.validation == validation && series.name == name;
        let at = self.series.iter().position(same).unwrap_or_else(|| {
            self.series.push(Series { name: name.to_owned(), validation, points: Vec::new() });
            self.series.len() - 1
        });
        self.series[at].points.push((step, value));
    }

    /// Adds what an event tells.
    pub fn observe(&mut self, event: &Event) {
        match event {
            Event::Step(report) => {
                let values = [Some(report.loss), Some(report.rate), report.gradient_norm];
                let named = History::OF_STEPS.into_iter().zip(values);
                for (name, value) in named {
                    value.into_iter().for_each(|value| self.record(name, false, report.step, value));
                }
            }
            Event::Validation { step, values, .. } => {
                values.iter().for_each(|(name, value)| self.record(name, true, *step, *value));
            }
            _ => {}
        }
    }

    /// The points of a series, each a number of steps and a value.
    pub fn series(&self, name: &str, validation: bool) -> &[(u64, f64)] {
        let same = |series: &&Series| series.validation == validation && series.name == name;
        self.series.iter().find(same).map_or(&[], |series| series.points.as_slice())
    }

    /// The names of all series, each once, in the order in which they came.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for series in &self.series {
            if !names.contains(&series.name.as_str()) {
                names.push(series.name.as_str());
            }
        }
        names
    }
}
