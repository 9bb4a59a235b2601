//! Whisper-tiny's encoder on half a minute of sound.

use super::{Feed, Fill, Variant, Workload, usual_scale};
use crate::models::WhisperEncoder;
use crate::params::Scope;
use meganeura_core::ir::Value;

pub(super) struct WhisperWorkload {
    variant: Variant,
    model: WhisperEncoder,
    /// Mels and frames.
    spectrogram: [usize; 2],
}

impl WhisperWorkload {
    pub(super) fn new(variant: Variant) -> WhisperWorkload {
        match variant {
            Variant::Tiny => WhisperWorkload { variant, model: WhisperEncoder::tiny(), spectrogram: [8, 27] },
            Variant::Full => {
                WhisperWorkload { variant, model: WhisperEncoder::whisper_tiny(), spectrogram: [80, 3000] }
            }
        }
    }
}

impl Workload for WhisperWorkload {
    fn name(&self) -> &'static str {
        "whisper"
    }
    fn variant(&self) -> Variant {
        self.variant
    }
    fn inputs(&self, _: bool) -> Vec<Feed> {
        let [mels, frames] = self.spectrogram;
        vec![Feed::floats("mel", [1, mels, frames], Fill::Sin { step: 0.001 * self.variant.pace(), gain: 1.0 })]
    }
    fn target(&self) -> Option<Feed> {
        None
    }
    fn output<'g>(&self, g: &Scope<'_, 'g>, inputs: &[Value<'g>]) -> Value<'g> {
        self.model.forward(g, inputs[0])
    }
    fn loss<'g>(&self, output: Value<'g>, _: Option<Value<'g>>) -> Value<'g> {
        (output * output).mean_all()
    }
    fn weight_scale(&self) -> f32 {
        usual_scale(self.variant)
    }
    fn norm_spread(&self, norm: &str) -> f32 {
        // With equal weights the mean square of the last norm's result would be 1 whatever came before.
        if norm == "layer_norm.weight" { 0.5 } else { 0.0 }
    }
}
