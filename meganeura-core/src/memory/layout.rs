//! Where states lie.

use super::plan::{StateLayout, StateSlot};
use crate::ir::Graph;
use crate::schedule::Caps;
use std::collections::BTreeMap;

impl StateLayout {
    /// A layout of a graph's states: those of one group side by side in one arena, in the order of their declaration,
    /// each aligned for binding; a group larger than one binding may be takes several arenas.
    pub fn of_graph(graph: &Graph, caps: &Caps) -> StateLayout {
        let alignment = caps.binding_alignment as usize;
        let limit = caps.max_binding_bytes.min(caps.max_buffer_bytes) as usize;
        let mut layout = StateLayout::default();
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        for state in graph.states() {
            let bytes = state.ty.bytes().max(4).next_multiple_of(alignment);
            let fits = |&arena: &usize| layout.arenas[arena].checked_add(bytes).is_some_and(|end| end <= limit);
            let arena = match open.get(&*state.group).copied().filter(fits) {
                Some(arena) => arena,
                None => {
                    layout.arenas.push(0);
                    layout.arenas.len() - 1
                }
            };
            open.insert(&state.group, arena);
            let offset = layout.arenas[arena];
            layout.arenas[arena] += bytes;
            layout.states.push(StateSlot { name: state.name.to_string(), ty: state.ty.clone(), arena, offset });
        }
        layout.states.sort_by(|a, b| a.name.cmp(&b.name));
        layout
    }

    /// The slot of a state.
    pub fn slot(&self, name: &str) -> Option<&StateSlot> {
        self.states.binary_search_by(|slot| slot.name.as_str().cmp(name)).ok().map(|at| &self.states[at])
    }
}
