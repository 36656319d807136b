//! Unified diffs as `go-difflib` writes them, which follows Python's `difflib`.
//!
//! The longest equal block of lines splits both texts, and each side is split again. In a text of 200 lines or more, lines that occur often
//! do not begin such a block.

use std::collections::BTreeMap;

/// Equal lines that are shown around a difference.
const CONTEXT: usize = 3;
/// Texts of this number of lines ignore frequent lines while blocks are searched.
const FREQUENT_FROM: usize = 200;
/// Bound of the search: pairs of equal lines that are visited.
const MAX_STEPS: usize = 5_000_000;

/// Equal lines of both texts.
#[derive(Clone, Copy)]
struct EqualBlock {
    old: usize,
    new: usize,
    size: usize,
}

/// Lines `old` of the old text that become lines `new` of the new text.
#[derive(Clone, Copy)]
struct LineChange {
    equal: bool,
    old: (usize, usize),
    new: (usize, usize),
}

/// Returns the differences between two texts, each with three lines of context and without a header for file names. The result is empty if the
/// texts are equal, and `None` if the search for equal lines would take too long.
#[must_use]
pub fn unified_diff(old: &str, new: &str) -> Option<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let mut text = String::new();
    for group in groups(&changes(&equal_blocks(&old, &new)?)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let (before, after) = (range(first.old.0, last.old.1), range(first.new.0, last.new.1));
        text.push_str(&format!("@@ -{before} +{after} @@\n"));
        let mut write = |mark: char, lines: &[&str]| {
            for line in lines {
                text.push(mark);
                text.push_str(line);
                text.push('\n');
            }
        };
        for change in group {
            let removed = &old[change.old.0..change.old.1];
            if change.equal {
                write(' ', removed);
            } else {
                write('-', removed);
                write('+', &new[change.new.0..change.new.1]);
            }
        }
    }
    Some(text)
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

/// Returns the equal blocks in ascending order, and an empty one at the end of the texts.
fn equal_blocks(old: &[&str], new: &[&str]) -> Option<Vec<EqualBlock>> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(index);
    }
    if new.len() >= FREQUENT_FROM {
        let most = new.len() / 100 + 1;
        places.retain(|_, indexes| indexes.len() <= most);
    }
    let mut search = LineSearch { old, new, places, steps: 0 };
    let mut found = Vec::new();
    let mut open = vec![((0, old.len()), (0, new.len()))];
    while let Some((in_old, in_new)) = open.pop() {
        let block = search.longest(in_old, in_new)?;
        if block.size == 0 {
            continue;
        }
        found.push(block);
        let (old_end, new_end) = (block.old + block.size, block.new + block.size);
        for (in_old, in_new) in
            [((in_old.0, block.old), (in_new.0, block.new)), ((old_end, in_old.1), (new_end, in_new.1))]
        {
            if in_old.0 < in_old.1 && in_new.0 < in_new.1 {
                open.push((in_old, in_new));
            }
        }
    }
    found.sort_by_key(|block| (block.old, block.new));
    let mut blocks: Vec<EqualBlock> = Vec::new();
    for block in found {
        match blocks.last_mut() {
            Some(last) if last.old + last.size == block.old && last.new + last.size == block.new => {
                last.size += block.size;
            }
            _ => blocks.push(block),
        }
    }
    blocks.push(EqualBlock { old: old.len(), new: new.len(), size: 0 });
    Some(blocks)
}

struct LineSearch<'a> {
    old: &'a [&'a str],
    new: &'a [&'a str],
    /// Indexes of each line of the new text, without frequent lines.
    places: BTreeMap<&'a str, Vec<usize>>,
    steps: usize,
}

impl LineSearch<'_> {
    /// Returns the longest equal block; the first one in the old text, then in the new text, if several have the same length.
    fn longest(&mut self, in_old: (usize, usize), in_new: (usize, usize)) -> Option<EqualBlock> {
        let mut best = EqualBlock { old: in_old.0, new: in_new.0, size: 0 };
        // Lengths of the blocks that end in the previous line of the old text, by ascending line of the new text.
        let mut lengths: Vec<(usize, usize)> = Vec::new();
        for old in in_old.0..in_old.1 {
            let all = self.places.get(self.old[old]).map_or(&[][..], Vec::as_slice);
            let first = all.partition_point(|new| *new < in_new.0);
            let last = all.partition_point(|new| *new < in_new.1);
            self.steps += 1 + last - first;
            if self.steps > MAX_STEPS {
                return None;
            }
            let mut previous = lengths.iter().peekable();
            let mut current = Vec::with_capacity(last - first);
            for &new in &all[first..last] {
                while previous.next_if(|(end, _)| end + 1 < new).is_some() {}
                let length =
                    previous.peek().filter(|(end, _)| end + 1 == new).map_or(1, |(_, size)| size + 1);
                current.push((new, length));
                if length > best.size {
                    best = EqualBlock { old: old + 1 - length, new: new + 1 - length, size: length };
                }
            }
            lengths = current;
        }
        // Frequent lines on both sides belong to the block.
        while best.old > in_old.0 && best.new > in_new.0 && self.old[best.old - 1] == self.new[best.new - 1] {
            best = EqualBlock { old: best.old - 1, new: best.new - 1, size: best.size + 1 };
        }
        while best.old + best.size < in_old.1
            && best.new + best.size < in_new.1
            && self.old[best.old + best.size] == self.new[best.new + best.size]
        {
            best.size += 1;
        }
        Some(best)
    }
}

/// Returns the changes that lead from the old text to the new one, with the equal lines between them.
fn changes(blocks: &[EqualBlock]) -> Vec<LineChange> {
    let (mut old, mut new) = (0, 0);
    let mut changes = Vec::new();
    for block in blocks {
        if old < block.old || new < block.new {
            changes.push(LineChange { equal: false, old: (old, block.old), new: (new, block.new) });
        }
        (old, new) = (block.old + block.size, block.new + block.size);
        if block.size > 0 {
            changes.push(LineChange { equal: true, old: (block.old, old), new: (block.new, new) });
        }
    }
    changes
}

/// Groups changes that are near to each other, with their context.
fn groups(changes: &[LineChange]) -> Vec<Vec<LineChange>> {
    let mut groups = Vec::new();
    let mut group: Vec<LineChange> = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        let mut change = *change;
        if change.equal {
            let length = change.old.1 - change.old.0;
            let (is_first, is_last) = (index == 0, index + 1 == changes.len());
            let end = |change: LineChange| LineChange {
                old: (change.old.0, change.old.1.min(change.old.0 + CONTEXT)),
                new: (change.new.0, change.new.1.min(change.new.0 + CONTEXT)),
                ..change
            };
            if is_last {
                change = end(change);
            } else if !is_first && length > 2 * CONTEXT {
                group.push(end(change));
                groups.push(std::mem::take(&mut group));
            }
            if is_first || (!is_last && length > 2 * CONTEXT) {
                change.old.0 = change.old.0.max(change.old.1.saturating_sub(CONTEXT));
                change.new.0 = change.new.0.max(change.new.1.saturating_sub(CONTEXT));
            }
        }
        group.push(change);
    }
    if group.iter().any(|change| !change.equal) {
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expected: &str) {
        assert_eq!(unified_diff(old, new).as_deref(), Some(expected), "{old} {new}");
    }

    fn lines(text: &str) -> String {
        text.replace(' ', "\n")
    }

    #[test]
    fn equal_texts_have_no_diff() {
        check("a\nb", "a\nb", "");
        check("", "", "");
    }

    /// Expected texts of Python's `difflib.unified_diff` without its first two lines.
    #[test]
    fn near_changes_share_a_group() {
        check("a", "b", "@@ -1 +1 @@\n-a\n+b\n");
        check(
            &lines("1 2 3 4 5 6 7 8 9"),
            &lines("1 2 3 4 x 6 7 8 9"),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n",
        );
        check(
            &lines("1 2 3 4 5 6 7 8 9 10 11"),
            &lines("0 1 2 3 4 5 6 7 8 9 10"),
            "@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n@@ -8,4 +9,3 @@\n 8\n 9\n 10\n-11\n",
        );
        check(
            &lines("1 2 3 4 5 6 7 8"),
            &lines("x 2 3 4 5 6 7 y"),
            "@@ -1,8 +1,8 @@\n-1\n+x\n 2\n 3\n 4\n 5\n 6\n 7\n-8\n+y\n",
        );
        check("a\nb\nc", "", "@@ -1,3 +1 @@\n-a\n-b\n-c\n+\n");
    }

    #[test]
    fn the_longest_block_stays() {
        check(&lines("a b"), &lines("a c a b"), "@@ -1,2 +1,4 @@\n+a\n+c\n a\n b\n");
    }

    /// Frequent lines begin no block, as in Python's `difflib`.
    #[test]
    fn frequent_lines_only_extend_a_block() {
        let old: Vec<String> = (0..100).flat_map(|n| [n.to_string(), "}".to_owned()]).collect();
        let mut new = old.clone();
        new[100] = "x".to_owned();
        let diff = unified_diff(&old.join("\n"), &new.join("\n")).unwrap();
        assert_eq!(diff, "@@ -98,7 +98,7 @@\n }\n 49\n }\n-50\n+x\n }\n 51\n }\n");
    }

    #[test]
    fn a_long_search_ends() {
        let text = |offset: usize| -> String {
            // Each line occurs as often as it may without being ignored.
            let lines: Vec<String> = (0..40_000).map(|n| ((n * 7 + offset) % 100).to_string()).collect();
            lines.join("\n")
        };
        assert_eq!(unified_diff(&text(0), &text(3)), None);
    }
}
