//! What the host did when: spans of `tracing`, kept for a trace.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;
use web_time::Instant;

/// Spans that are kept at most; later ones are dropped, so that a long run does not fill the memory.
const MOST_SPANS: usize = 1 << 20;

/// A stretch of time that one thread spent in a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpan {
    /// The span's name.
    pub name: String,
    /// The module that made it.
    pub target: String,
    /// Its fields as `name=value`, separated by spaces.
    pub fields: String,
    /// A number of the thread, small and unique in its [`HostSpans`].
    pub thread: u32,
    /// The thread's name, or `thread` and its number.
    pub thread_name: String,
    /// When it was entered.
    pub start: Instant,
    /// When it was left.
    pub end: Instant,
}

/// Keeps spans of `tracing`: a layer for a subscriber of `tracing-subscriber`'s registry. Clones keep into one list.
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt;
/// let spans = meganeura_wgpu::HostSpans::default();
/// tracing::subscriber::with_default(tracing_subscriber::registry().with(spans.clone()), || {
///     tracing::info_span!("work").in_scope(|| ());
/// });
/// assert_eq!(spans.take()[0].name, "work");
/// ```
#[derive(Clone, Default)]
pub struct HostSpans {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    spans: Vec<HostSpan>,
    threads: Vec<std::thread::ThreadId>,
}

/// What a span that is open remembers.
struct Open {
    fields: String,
    /// One a time it was entered and not yet left.
    entered: Vec<Instant>,
}

impl HostSpans {
    /// The spans that ended so far, in the order of their ends; they are kept no longer.
    pub fn take(&self) -> Vec<HostSpan> {
        std::mem::take(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner).spans)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for HostSpans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields(String::new());
        attributes.record(&mut fields);
        span.extensions_mut().insert(Open { fields: fields.0, entered: Vec::new() });
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            open.entered.push(Instant::now());
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let end = Instant::now();
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(open) = extensions.get_mut::<Open>() else { return };
        let Some(start) = open.entered.pop() else { return };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.spans.len() < MOST_SPANS {
            let (thread, thread_name) = kept.thread();
            let (name, target) = (span.name().to_owned(), span.metadata().target().to_owned());
            kept.spans.push(HostSpan { name, target, fields: open.fields.clone(), thread, thread_name, start, end });
        }
    }
}

impl Kept {
    /// Number and name of the running thread.
    fn thread(&mut self) -> (u32, String) {
        let current = std::thread::current();
        let number = self.threads.iter().position(|&known| known == current.id()).unwrap_or_else(|| {
            self.threads.push(current.id());
            self.threads.len() - 1
        });
        (number as u32, current.name().map_or_else(|| format!("thread {number}"), str::to_owned))
    }
}

/// Collects fields as text.
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let space = if self.0.is_empty() { "" } else { " " };
        // Writing to a string does not fail.
        let _ = write!(self.0, "{space}{}={value:?}", field.name());
    }
}
