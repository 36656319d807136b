//! Guestbook.
fn main() {}
