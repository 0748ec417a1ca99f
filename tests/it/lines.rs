//! What whole numbered output looks like: the scripts that write it and the
//! check that nothing is missing, doubled or out of order.

use std::path::Path;

/// Writes numbered lines on both streams until the file that its prompt names
/// is there; then 20 more, and ends with the code that its prompt begins with.
pub const NUMBERING: &str = r#"
read code gate
number=0
more=20
while [ $more -gt 0 ]; do
    number=$((number + 1))
    echo "out $number"
    echo "err $number" >&2
    if [ -e "$gate" ]; then more=$((more - 1)); else sleep 0.03; fi
done
echo "last $number"
exit $code
"#;

/// The prompt of [`NUMBERING`].
pub fn numbering(code: i32, gate: &Path) -> String {
    format!("{code} {}", gate.display())
}

/// Checks that lines are `<word> 1`, `<word> 2` … and returns the last number.
#[track_caller]
pub fn contiguous<'l>(lines: impl IntoIterator<Item = &'l String>, word: &str) -> usize {
    let mut count = 0;
    for line in lines {
        count += 1;
        assert_eq!(*line, format!("{word} {count}"));
    }
    count
}

/// Checks the two streams of a [`NUMBERING`] that has ended.
#[track_caller]
pub fn whole(stdout: &[String], stderr: &[String]) {
    let (last, stdout) = stdout.split_last().expect("it has written");
    let count = contiguous(stdout, "out");
    assert_eq!(*last, format!("last {count}"));
    assert_eq!(contiguous(stderr, "err"), count);
}
