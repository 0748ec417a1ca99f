//! Circles among tasks that depend on each other. Pure.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// The way from `start` back to itself, if there is one: first and last are `start`.
/// An edge leads from what depends to what it depends on.
pub fn cycle<N: Copy + Eq + Hash>(edges: &HashMap<N, Vec<N>>, start: N) -> Option<Vec<N>> {
    let mut came_from: HashMap<N, N> = HashMap::new();
    let mut open = vec![start];
    while let Some(task) = open.pop() {
        for &next in edges.get(&task).into_iter().flatten() {
            if next == start {
                let mut path = vec![start, task];
                while let Some(&before) = path.last().and_then(|last| came_from.get(last)) {
                    path.push(before);
                }
                path.reverse();
                return Some(path);
            }
            if let Entry::Vacant(unseen) = came_from.entry(next) {
                unseen.insert(task);
                open.push(next);
            }
        }
    }
    None
}

/// Some circle, if there is one: what no path leads out of, taken away again and
/// again, leaves nothing but circles and what leads to them.
pub fn any_cycle<N: Copy + Ord + Hash>(edges: &HashMap<N, Vec<N>>) -> Option<Vec<N>> {
    let mut waits: HashMap<N, usize> = edges.iter().map(|(from, to)| (*from, to.len())).collect();
    let mut dependents: HashMap<N, Vec<N>> = HashMap::new();
    for (from, to) in edges {
        for to in to {
            dependents.entry(*to).or_default().push(*from);
        }
    }
    let mut free: Vec<N> = dependents.keys().filter(|n| !waits.contains_key(n)).copied().collect();
    free.extend(waits.iter().filter(|(_, count)| **count == 0).map(|(from, _)| *from));
    while let Some(done) = free.pop() {
        waits.remove(&done);
        for dependent in dependents.get(&done).into_iter().flatten() {
            if let Some(count) = waits.get_mut(dependent) {
                *count -= 1;
                if *count == 0 {
                    free.push(*dependent);
                }
            }
        }
    }
    // Each that is left depends on one that is left: going on, one comes round.
    let mut at = *waits.keys().min()?;
    let mut seen = HashSet::new();
    while seen.insert(at) {
        at = *edges.get(&at)?.iter().find(|to| waits.contains_key(to))?;
    }
    cycle(edges, at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cycle_is_told_with_its_path_and_a_diamond_is_none() {
        let [a, b, c, d] = [1, 2, 3, 4];
        let diamond = HashMap::from([(a, vec![b, c]), (b, vec![d]), (c, vec![d])]);
        assert_eq!(cycle(&diamond, a), None);
        let ring = HashMap::from([(a, vec![b]), (b, vec![c]), (c, vec![a])]);
        assert_eq!(cycle(&ring, a), Some(vec![a, b, c, a]));
        let own = HashMap::from([(a, vec![a])]);
        assert_eq!(cycle(&own, a), Some(vec![a, a]));
        let elsewhere = HashMap::from([(a, vec![b]), (b, vec![c]), (c, vec![b])]);
        assert_eq!(cycle(&elsewhere, a), None);
    }

    proptest! {
        #[test]
        fn there_is_a_circle_if_some_task_is_on_one(
            edges in proptest::collection::hash_map(0..8_u8, proptest::collection::vec(0..8_u8, 0..3), 0..8),
        ) {
            let found = any_cycle(&edges);
            prop_assert_eq!(found.is_some(), (0..8).any(|start| cycle(&edges, start).is_some()));
            for pair in found.iter().flat_map(|path| path.windows(2)) {
                prop_assert!(edges[&pair[0]].contains(&pair[1]));
            }
        }
    }
}
