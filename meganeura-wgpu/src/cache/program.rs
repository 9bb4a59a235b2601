//! Compiled programs as entries.

use super::{Cache, Kind};
use meganeura_core::ir::Graph;
use meganeura_core::memory::StateLayout;
use meganeura_core::options::Options;
use meganeura_core::pipeline::{self, CompileError, Program, Stage};
use meganeura_core::program::COMPILER;
use meganeura_core::schedule::Caps;
use sha2::{Digest, Sha256};
use web_time::Instant;

/// The name of an entry: a hash of parts, none of which can be taken for another.
pub(crate) fn key_of(parts: &[&[u8]]) -> String {
    hash(parts).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A hash of an entry's key and content: damaged files and those of other keys do not have it.
pub(super) fn checksum(key: &str, content: &[u8]) -> [u8; 32] {
    hash(&[key.as_bytes(), content])
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

impl Cache {
    /// The program of a graph: a kept one if there is one that passes its verifiers, else a new one, which is kept.
    ///
    /// # Errors
    /// Those of [`pipeline::compile`].
    pub fn compile(
        &self,
        graph: &Graph,
        options: &Options,
        caps: &Caps,
        layout: Option<&StateLayout>,
    ) -> Result<Program, CompileError> {
        let start = Instant::now();
        let key = program_key(graph, options, caps, layout);
        let kept = tracing::info_span!("load").in_scope(|| self.load(&key, graph, caps, layout));
        if let Some(program) = kept {
            return Ok(program.from_cache(graph, start.elapsed()));
        }
        let missed = start.elapsed();
        let mut program = pipeline::compile(graph, options, caps, layout)?;
        program.report.add(Stage::Load, missed);
        let start = Instant::now();
        match postcard::to_stdvec(&program) {
            Ok(bytes) => self.write(&key, Kind::Program, &bytes),
            Err(error) => tracing::warn!("a program cannot be kept: {error}"),
        }
        program.report.add(Stage::Save, start.elapsed());
        Ok(program)
    }

    fn load(&self, key: &str, graph: &Graph, caps: &Caps, layout: Option<&StateLayout>) -> Option<Program> {
        let bytes = self.read(key, Kind::Program)?;
        let refused = |error: &dyn std::fmt::Display| tracing::warn!("a kept program is ignored: {error}");
        let program: Program = postcard::from_bytes(&bytes).inspect_err(|error| refused(error)).ok()?;
        program.verify(graph, caps, layout).inspect_err(|error| refused(error)).ok()?;
        Some(program)
    }
}

/// All that a program depends on: the compiler, the graph, the options, the device, and where states lie.
fn program_key(graph: &Graph, options: &Options, caps: &Caps, layout: Option<&StateLayout>) -> String {
    let [graph, options] = [graph.to_string(), format!("{options:?}")];
    let [caps, layout] = [format!("{caps:?}"), format!("{layout:?}")];
    let parts = [COMPILER, &graph, &options, &caps, &layout];
    key_of(&parts.map(str::as_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use meganeura_core::dtype::DType;
    use meganeura_core::ir::Builder;
    use meganeura_core::shape::TensorType;
    use std::sync::Arc;

    #[test]
    fn what_its_verifiers_refuse_is_ignored_and_replaced() {
        let folder = tempfile::TempDir::new().unwrap();
        let (cache, options, caps) = (Cache::open(folder.path()), Options::default(), Caps::base());
        let builder = Builder::new();
        builder.output("y", builder.input("x", TensorType::new(DType::F32, [5])).exp());
        let graph = builder.finish().unwrap();
        let compile = || cache.compile(&graph, &options, &caps, None).unwrap();
        let sound = compile();
        let key = program_key(&graph, &options, &caps, None);
        let damages: [fn(&mut Program); 3] = [
            |program| Arc::make_mut(&mut program.plan).kernels[0].args[0].elements = 1 << 20,
            |program| Arc::make_mut(&mut program.plan).dispatches[0].bindings[0].place.buffer = 7,
            |program| program.layout.arenas.push(16),
        ];
        for damage in damages {
            let mut program = sound.clone();
            damage(&mut program);
            cache.write(&key, Kind::Program, &postcard::to_stdvec(&program).unwrap());
            assert_eq!([compile(), compile()].map(|program| program.report.cached), [false, true]);
        }
        cache.write(&key, Kind::Program, b"bytes of something else, with the right checksum");
        assert_eq!([compile(), compile()].map(|program| program.report.cached), [false, true]);
        assert_eq!(compile().plan, sound.plan);
    }
}
