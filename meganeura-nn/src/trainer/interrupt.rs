//! Stopping cleanly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to stop after the current step, which a training looks at. Clones are handles of one request.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    requested: Arc<AtomicBool>,
}

/// The system does not tell of Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("Ctrl-C cannot be caught: {0}")]
pub struct SignalError(String);

impl Interrupt {
    /// Nothing requested yet.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// Requested by Ctrl-C (SIGINT) or SIGTERM, for the whole program, once in its life. The second one ends the program at once,
    /// with exit code [`INTERRUPTED`](super::Ended::INTERRUPTED) and without a checkpoint.
    ///
    /// # Errors
    /// [`SignalError`] if somebody handles Ctrl-C already, or the system refuses.
    #[cfg(all(feature = "console", not(target_family = "wasm")))]
    pub fn on_ctrl_c() -> Result<Interrupt, SignalError> {
        let interrupt = Interrupt::new();
        let requested = Arc::clone(&interrupt.requested);
        let handler = move || {
            if requested.swap(true, Ordering::SeqCst) {
                std::process::exit(super::Ended::INTERRUPTED.into());
            }
        };
        ctrlc::try_set_handler(handler).map_err(|error| SignalError(error.to_string()))?;
        Ok(interrupt)
    }

    /// Requests it.
    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
    }

    /// Whether it was requested.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::SeqCst)
    }
}
