//! Validation.

use super::error::TrainError;
use super::metrics::{Mean, Metric, Results};
use super::programs::{Programs, rows};
use super::recipe::LOSS;
use crate::data::Loader;

/// Evaluates one epoch of a loader, the same each time: the mean loss over all items, then the metrics.
pub(super) fn validate(
    programs: &mut Programs<'_>,
    loader: &mut Loader,
    metrics: &mut [Box<dyn Metric>],
) -> Result<Vec<(String, f64)>, TrainError> {
    metrics.iter_mut().for_each(|metric| metric.reset());
    let mut loss = Mean::default();
    let start = loader.state();
    while let Some(batch) = loader.next_batch()? {
        let items = batch.items.len() as f64;
        let batch = rows(batch)?;
        let outputs = programs.validate(&batch)?;
        let own = outputs.iter().find(|(name, _)| name == LOSS);
        loss.add(own.map_or(f64::NAN, |(_, loss)| loss.to_f64().iter().sum()), items);
        let results = Results::new(&outputs, &batch);
        metrics.iter_mut().try_for_each(|metric| metric.update(&results))?;
    }
    loader.restore(start)?;
    let values = metrics.iter().map(|metric| (metric.name(), metric.value()));
    Ok(std::iter::once((LOSS.to_owned(), loss.value())).chain(values).collect())
}

/// Refuses a metric that no validation gives, before the training and not after its first epoch.
pub(super) fn check_metric(name: Option<&str>, metrics: &[Box<dyn Metric>]) -> Result<(), TrainError> {
    let known: Vec<String> =
        std::iter::once(LOSS.to_owned()).chain(metrics.iter().map(|metric| metric.name())).collect();
    match name {
        Some(name) if known.iter().all(|own| own != name) => Err(TrainError::NoMetric { name: name.to_owned(), known }),
        _ => Ok(()),
    }
}
