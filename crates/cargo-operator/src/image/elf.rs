//! Facts about a program in the format ELF: <https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html>.

/// Type of a program header that names the dynamic linker.
const INTERPRETER: u32 = 3;

/// A program that an image can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Program {
    /// Name of the processor, as in images: `amd64`.
    pub(super) architecture: &'static str,
}

impl Program {
    /// Reads the headers of a file.
    pub(super) fn read(file: &[u8]) -> Result<Self, String> {
        let short = || "it is truncated: the file ends within its headers".to_owned();
        if !file.starts_with(b"\x7fELF") {
            return Err("it is not a program for Linux".to_owned());
        }
        // 64 bits and little-endian, like all processors below.
        if file.get(4..6).ok_or_else(short)? != [2, 1] {
            return Err("it is for a 32-bit or big-endian processor".to_owned());
        }
        let architecture = match number(file, 18, 2).ok_or_else(short)? {
            62 => "amd64",
            183 => "arm64",
            243 => "riscv64",
            other => return Err(format!("it is for an unsupported processor: ELF machine {other}")),
        };
        let headers = (|| Some((number(file, 32, 8)?, number(file, 54, 2)?, number(file, 56, 2)?)))();
        let (start, size, count) = headers.ok_or_else(short)?;
        for index in 0..count {
            let offset = start.checked_add(index * size).ok_or_else(short)?;
            if number(file, offset, 4).ok_or_else(short)? == u64::from(INTERPRETER) {
                return Err(format!(
                    "it needs shared libraries: it is loaded by {}",
                    interpreter(file, offset)
                ));
            }
        }
        Ok(Self { architecture })
    }
}

/// Name of the dynamic linker.
fn interpreter(file: &[u8], header: u64) -> String {
    let text = (|| {
        let start = usize::try_from(number(file, header.checked_add(8)?, 8)?).ok()?;
        let text = file.get(start..)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text.get(..text.len().min(100))?).into_owned())
    })();
    text.unwrap_or_else(|| "a dynamic linker".to_owned())
}

/// Reads a number of `length` bytes; `None` beyond the end of the file.
fn number(file: &[u8], offset: u64, length: usize) -> Option<u64> {
    let start = usize::try_from(offset).ok()?;
    let bytes = file.get(start..start.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A program without code, for a machine, with one program header of this type.
    pub(in super::super) fn program(machine: u16, header: u32) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01".to_vec();
        file.resize(64, 0);
        file[18..20].copy_from_slice(&machine.to_le_bytes());
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        file.extend(header.to_le_bytes());
        file.resize(64 + 56, 0);
        file[64 + 8] = 120;
        file.extend(b"/lib64/ld.so\0code");
        file
    }

    #[test]
    fn static_programs_are_accepted_with_their_processor() {
        for (machine, expected) in [(62, "amd64"), (183, "arm64"), (243, "riscv64")] {
            assert_eq!(Program::read(&program(machine, 1)), Ok(Program { architecture: expected }));
        }
    }

    #[test]
    fn others_are_refused_with_the_reason() {
        let refused = |file: &[u8]| Program::read(file).expect_err("refused");
        assert_eq!(refused(&program(62, 3)), "it needs shared libraries: it is loaded by /lib64/ld.so");
        assert_eq!(refused(&program(3, 1)), "it is for an unsupported processor: ELF machine 3");
        assert_eq!(refused(b"#!/bin/sh"), "it is not a program for Linux");
        let mut small = program(62, 1);
        small[4] = 1;
        assert_eq!(refused(&small), "it is for a 32-bit or big-endian processor");
        // Any part of a file is read without a panic.
        let whole = program(62, 3);
        for length in 4..120 {
            assert!(Program::read(&whole[..length]).is_err(), "{length}");
        }
        let mut far = program(62, 1);
        far[32..40].fill(0xff);
        assert_eq!(refused(&far), "it is truncated: the file ends within its headers");
    }
}
