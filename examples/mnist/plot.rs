//! The losses as a curve.

use plotters::prelude::*;
use std::error::Error;
use std::path::Path;

/// Draws the loss of each step and its running mean on a logarithmic scale.
pub fn draw(path: &Path, losses: &[f32]) -> Result<(), Box<dyn Error>> {
    let failed = |error: &dyn Error| format!("{}: cannot be drawn: {error}", path.display());
    let floor = losses.iter().copied().fold(f32::INFINITY, f32::min).max(1e-6);
    let peak = losses.iter().copied().fold(floor, f32::max);
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (900, 500)).into_drawing_area();
    let draw = || -> Result<(), Box<dyn Error>> {
        area.fill(&WHITE)?;
        let range = ((floor * 0.8)..(peak * 1.2)).log_scale();
        let mut chart = ChartBuilder::on(&area)
            .caption("Training loss", ("sans-serif", 22))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(0..losses.len().max(1), range)?;
        chart.configure_mesh().x_desc("step").y_desc("cross-entropy").draw()?;
        let raw = losses.iter().enumerate().map(|(step, &loss)| (step, loss.max(floor)));
        chart.draw_series(LineSeries::new(raw, BLUE.mix(0.25)))?;
        chart.draw_series(LineSeries::new(smoothed(losses, floor), BLUE.stroke_width(2)))?;
        area.present()?;
        Ok(())
    };
    draw().map_err(|error| failed(error.as_ref()))?;
    drop(area);
    // The backend itself writes a file when it is dropped, and says nothing where that fails.
    std::fs::write(path, text).map_err(|error| failed(&error).into())
}

/// An exponential running mean that forgets half in 35 steps, and corrects for its start at 0.
fn smoothed(losses: &[f32], floor: f32) -> Vec<(usize, f32)> {
    const KEEP: f32 = 0.98;
    let (mut mean, mut weight) = (0.0, 0.0);
    let point = |(step, &loss): (usize, &f32)| {
        mean = KEEP * mean + (1.0 - KEEP) * loss;
        weight = KEEP * weight + (1.0 - KEEP);
        (step, (mean / weight).max(floor))
    };
    losses.iter().enumerate().map(point).collect()
}
