//! Archives in the format ustar (POSIX.1-1988), with equal bytes for equal files: one owner, one time, one order.
//!
//! No library, because images need neither links, nor long names, nor reading.

/// Size of a header, and of the units in which contents are written.
const BLOCK: usize = 512;

/// Longest name of a file.
const LONGEST: usize = 100;

/// An entry of an archive.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry<'e> {
    /// A folder.
    Folder(&'e str),
    /// A file that everyone can read.
    File(&'e str, &'e [u8]),
    /// A program that everyone can run.
    Program(&'e str, &'e [u8]),
}

/// Makes an archive of the entries, all of which have this time, in seconds since 1970, and belong to root.
pub(super) fn archive<'e>(entries: impl IntoIterator<Item = Entry<'e>>, time: u32) -> Vec<u8> {
    let mut archive = Vec::new();
    for entry in entries {
        let (name, mode, kind, contents) = match entry {
            Entry::Folder(name) => (name, 0o755, b'5', &[][..]),
            Entry::File(name, contents) => (name, 0o644, b'0', contents),
            Entry::Program(name, contents) => (name, 0o755, b'0', contents),
        };
        archive.extend(header(name, mode, kind, contents.len(), time));
        archive.extend(contents);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    // The end is two empty blocks.
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

fn header(name: &str, mode: usize, kind: u8, size: usize, time: u32) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let name = &name.as_bytes()[..name.len().min(LONGEST)];
    header[..name.len()].copy_from_slice(name);
    octal(&mut header[100..108], mode);
    octal(&mut header[108..116], 0);
    octal(&mut header[116..124], 0);
    octal(&mut header[124..136], size);
    octal(&mut header[136..148], time as usize);
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    // The checksum is computed with spaces in its own field.
    header[148..156].fill(b' ');
    let sum: usize = header.iter().map(|byte| usize::from(*byte)).sum();
    octal(&mut header[148..155], sum);
    header
}

/// Writes an octal number with leading zeros, and a zero byte at the end of the field.
fn octal(field: &mut [u8], number: usize) {
    let digits = field.len() - 1;
    let text = format!("{number:0digits$o}");
    field[..digits].copy_from_slice(&text.as_bytes()[text.len() - digits..]);
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        process::{Command, Stdio},
    };

    use super::*;

    /// The program `tar` reads the archive.
    #[test]
    fn archives_are_read_by_other_programs() {
        let entries = [
            Entry::Folder("blobs/"),
            Entry::File("blobs/text", &[b'x'; 600]),
            Entry::Program("operator", b"code"),
        ];
        let bytes = archive(entries, 1_700_000_000);
        let mut tar = Command::new("tar")
            .args(["--list", "--verbose", "--numeric-owner", "--utc", "--file=-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("tar runs");
        tar.stdin.take().expect("a pipe").write_all(&bytes).expect("it reads");
        let output = tar.wait_with_output().expect("it ends");
        assert!(output.status.success());
        let text = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines,
            [
                ["drwxr-xr-x", "0/0", "0", "2023-11-14", "22:13", "blobs/"],
                ["-rw-r--r--", "0/0", "600", "2023-11-14", "22:13", "blobs/text"],
                ["-rwxr-xr-x", "0/0", "4", "2023-11-14", "22:13", "operator"],
            ]
        );
        assert_eq!(bytes.len() % BLOCK, 0);
        assert_eq!(archive(entries, 1_700_000_000), bytes);
    }
}
