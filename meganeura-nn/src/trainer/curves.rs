//! Losses and metrics as curves, in an SVG file.

use super::history::History;
use crate::checkpoint::{CheckpointError, write_whole};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::ops::Range;
use std::path::Path;

/// Width of the picture, and height of each of its charts.
const SIZE: (u32, u32) = (900, 320);
/// Points of a drawn line: more are thinned out, which no eye sees and which keeps files of long trainings small.
const POINTS: usize = 2000;

type DrawResult = Result<(), Box<dyn std::error::Error>>;

/// The curves could not be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CurveError {
    /// The drawing library refused.
    #[error("curves cannot be drawn: {0}")]
    Draw(String),
    /// The file could not be written.
    #[error(transparent)]
    File(#[from] CheckpointError),
}

/// Draws a chart for each name of the history that has a number, of training (blue: each value, and their running mean) and of
/// validation (orange). The loss is drawn on a logarithmic scale where it is positive.
///
/// # Errors
/// [`CurveError::Draw`].
pub fn svg(history: &History) -> Result<String, CurveError> {
    let names: Vec<&str> = history.names().into_iter().filter(|name| Chart::new(history, name).is_some()).collect();
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (SIZE.0, SIZE.1 * names.len().max(1) as u32)).into_drawing_area();
    let draw = || -> DrawResult {
        area.fill(&WHITE)?;
        let parts = area.split_evenly((names.len().max(1), 1));
        for (name, part) in names.iter().zip(&parts) {
            Chart::new(history, name).map_or(Ok(()), |chart| chart.draw(part))?;
        }
        Ok(area.present()?)
    };
    draw().map_err(|error| CurveError::Draw(error.to_string()))?;
    drop(area);
    Ok(text)
}

/// Writes [`svg`] to a file, which is whole or not there.
///
/// # Errors
/// [`CurveError`].
pub fn save(path: &Path, history: &History) -> Result<(), CurveError> {
    Ok(write_whole(path, svg(history)?.as_bytes())?)
}

/// The finite values of one name.
struct Chart<'a> {
    name: &'a str,
    training: Vec<(u64, f64)>,
    validation: Vec<(u64, f64)>,
}

impl<'a> Chart<'a> {
    /// Nothing if there is nothing to draw.
    fn new(history: &History, name: &'a str) -> Option<Chart<'a>> {
        let finite = |validation: bool| -> Vec<(u64, f64)> {
            history.series(name, validation).iter().copied().filter(|(_, value)| value.is_finite()).collect()
        };
        let (training, validation) = (finite(false), finite(true));
        let empty = training.is_empty() && validation.is_empty();
        (!empty).then_some(Chart { name, training, validation })
    }

    fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.training.iter().chain(&self.validation).map(|(_, value)| *value)
    }

    fn steps(&self) -> Range<u64> {
        let last = |points: &[(u64, f64)]| points.last().map_or(0, |point| point.0);
        0..last(&self.training).max(last(&self.validation)).max(1)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> DrawResult
    where
        B::ErrorType: 'static,
    {
        let low = self.values().fold(f64::INFINITY, f64::min);
        let high = self.values().fold(f64::NEG_INFINITY, f64::max);
        let mut builder = ChartBuilder::on(area);
        builder.caption(self.name, ("sans-serif", 20)).margin(12).x_label_area_size(36).y_label_area_size(64);
        if self.name == "loss" && low > 0.0 {
            let range = ((low * 0.8)..(high * 1.2)).log_scale();
            let mut chart = builder.build_cartesian_2d(self.steps(), range)?;
            chart.configure_mesh().x_desc("step").draw()?;
            return self.lines(|points, style| {
                chart.draw_series(LineSeries::new(points, style)).map(|_| ()).map_err(Into::into)
            });
        }
        let room = if high > low { (high - low) * 0.05 } else { high.abs() * 0.05 + 1e-9 };
        let mut chart = builder.build_cartesian_2d(self.steps(), (low - room)..(high + room))?;
        chart.configure_mesh().x_desc("step").draw()?;
        self.lines(|points, style| chart.draw_series(LineSeries::new(points, style)).map(|_| ()).map_err(Into::into))
    }

    fn lines(&self, mut line: impl FnMut(Vec<(u64, f64)>, ShapeStyle) -> DrawResult) -> DrawResult {
        line(thinned(&self.training), BLUE.mix(0.25).stroke_width(1))?;
        line(thinned(&smoothed(&self.training)), BLUE.stroke_width(2))?;
        line(thinned(&self.validation), RGBColor(230, 120, 0).stroke_width(2))
    }
}

/// An exponential running mean that forgets half in 35 points, and corrects for its start at 0.
fn smoothed(points: &[(u64, f64)]) -> Vec<(u64, f64)> {
    const KEEP: f64 = 0.98;
    let (mut mean, mut weight) = (0.0, 0.0);
    let smooth = |&(step, value): &(u64, f64)| {
        mean = KEEP * mean + (1.0 - KEEP) * value;
        weight = KEEP * weight + (1.0 - KEEP);
        (step, mean / weight)
    };
    points.iter().map(smooth).collect()
}

/// Every n-th point, the last one among them.
fn thinned(points: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let every = points.len().div_ceil(POINTS).max(1);
    points.iter().rev().step_by(every).rev().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_a_chart_and_what_is_no_number_is_left_out() {
        let mut history = History::default();
        (1..=5000).for_each(|step| history.record("loss", false, step, 1.0 / step as f64));
        history.record("loss", false, 5001, f64::NAN);
        history.record("loss", true, 5001, 0.5);
        history.record("accuracy", true, 5001, 0.9);
        history.record("nothing", true, 5001, f64::INFINITY);
        let text = svg(&history).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        assert!(text.contains(">\nloss\n") && text.contains(">\naccuracy\n") && !text.contains("nothing"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"));
        let small = text.len();
        assert!(small < 120_000, "{small} bytes");
        assert!(svg(&History::default()).unwrap().starts_with("<svg"));
    }

    #[test]
    fn thinning_keeps_the_last_point() {
        let points: Vec<(u64, f64)> = (0..POINTS as u64 * 3 + 1).map(|step| (step, 0.0)).collect();
        let thin = thinned(&points);
        assert!(thin.len() <= POINTS && thin.last() == points.last());
        assert_eq!(thinned(&points[..3]), points[..3]);
    }

    #[test]
    fn constant_and_negative_series_are_drawn() {
        let mut history = History::default();
        (0..3).for_each(|step| history.record("loss", false, step, -1.0));
        (0..3).for_each(|step| history.record("rate", false, step, 0.0));
        assert!(svg(&history).unwrap().matches("<polyline").count() > 2);
    }
}
