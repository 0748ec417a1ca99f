//! Cycles among tasks that depend on each other. Pure.

use std::collections::HashMap;
use std::hash::Hash;

/// A cycle that can be reached from one of the tasks `starts`, with its first task repeated at the end;
/// `None`: there is none. An edge leads from a task to one that it depends on. Without recursion, because
/// chains may be long.
pub fn cycle<N: Copy + Eq + Hash>(
    edges: &HashMap<N, Vec<N>>,
    starts: impl IntoIterator<Item = N>,
) -> Option<Vec<N>> {
    let edges = |task: N| edges.get(&task).map_or(&[][..], Vec::as_slice).iter();
    // For each visited task: whether it is on the current path.
    let mut is_on_path: HashMap<N, bool> = HashMap::new();
    for start in starts {
        if is_on_path.contains_key(&start) {
            continue;
        }
        is_on_path.insert(start, true);
        let mut path = vec![(start, edges(start))];
        while let Some((task, left)) = path.last_mut() {
            let Some(&next) = left.next() else {
                is_on_path.insert(*task, false);
                path.pop();
                continue;
            };
            match is_on_path.get(&next) {
                None => {
                    is_on_path.insert(next, true);
                    path.push((next, edges(next)));
                }
                Some(false) => {}
                Some(true) => {
                    let circle = path.iter().map(|(on, _)| *on).skip_while(|on| *on != next);
                    return Some(circle.chain([next]).collect());
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cycle_is_reported_with_its_path_and_a_diamond_is_none() {
        let [a, b, c, d] = [1, 2, 3, 4];
        let diamond = HashMap::from([(a, vec![b, c]), (b, vec![d]), (c, vec![d])]);
        assert_eq!(cycle(&diamond, [a]), None);
        let ring = HashMap::from([(a, vec![b]), (b, vec![c]), (c, vec![a])]);
        assert_eq!(cycle(&ring, [a]), Some(vec![a, b, c, a]));
        let own = HashMap::from([(a, vec![a])]);
        assert_eq!(cycle(&own, [a]), Some(vec![a, a]));
        let elsewhere = HashMap::from([(a, vec![b]), (b, vec![c]), (c, vec![b])]);
        assert_eq!(cycle(&elsewhere, [a]), Some(vec![b, c, b]));
        assert_eq!(cycle(&diamond, [d, c, b, a]), None);
    }

    proptest! {
        #[test]
        fn there_is_a_circle_if_some_task_is_on_one(
            edges in proptest::collection::hash_map(0..8_u8, proptest::collection::vec(0..8_u8, 0..3), 0..8),
        ) {
            let found = cycle(&edges, 0..8);
            let is_on_one = |start: u8| {
                let mut reached: Vec<u8> = edges.get(&start).cloned().unwrap_or_default();
                for _ in 0..8 {
                    let further = reached.iter().filter_map(|task| edges.get(task)).flatten();
                    reached.extend(further.copied().collect::<Vec<_>>());
                    reached.sort_unstable();
                    reached.dedup();
                }
                reached.contains(&start)
            };
            prop_assert_eq!(found.is_some(), (0..8).any(is_on_one));
            prop_assert!(found.iter().all(|path| path.len() > 1 && path.first() == path.last()));
            for pair in found.iter().flat_map(|path| path.windows(2)) {
                prop_assert!(edges[&pair[0]].contains(&pair[1]));
            }
        }
    }
}
