//! The tables do not shrink unseen: `counts.txt` holds what they had. Raise it when they grow.

use meganeura_core::testing::counts;

#[test]
#[allow(clippy::print_stdout)]
fn the_tables_hold_no_less_than_before() {
    let counts = counts();
    let rows = include_str!("counts.txt").lines().map(|line| line.split_once(' ').unwrap());
    let before: Vec<(&str, usize)> = rows.map(|(count, name)| (name, count.parse().unwrap())).collect();
    // Shown with `-- --nocapture`, as lines of the file.
    counts.iter().for_each(|(name, count)| println!("{count} {name}"));
    assert_eq!(counts.iter().map(|row| row.0).collect::<Vec<_>>(), before.iter().map(|row| row.0).collect::<Vec<_>>());
    for ((name, now), (_, before)) in counts.iter().zip(&before) {
        assert!(now >= before, "{name}: {now}, of which there were {before}");
    }
}
